"""An idempotent producer's record is in the log once, however often it was sent again."""

from penstock.sim.errors import Violation
from penstock.sim.history import History
from penstock.sim.reading import FinalLog


def check_duplicates(history: History, logs: list[FinalLog]) -> None:
    places: dict[str, str] = {}
    for log in logs:
        for record in log.records:
            name = history.see(record).name
            here = f"{log.partition}@{record.offset}"
            before = places.setdefault(name, here)
            if before != here:
                raise Violation("duplicates", f"{name} lies at {before} and at {here}")

"""An idempotent producer's record is in the log once, however often it was sent again."""

from penstock.sim.history import History
from penstock.sim.reading import FinalLog
from penstock.sim.trouble import Violation


def check_duplicates(history: History, logs: list[FinalLog]) -> None:
    places: dict[bytes, str] = {}
    for log in logs:
        for record in log.records:
            assert record.value is not None
            here = f"{log.partition}@{record.offset}"
            before = places.setdefault(record.value, here)
            if before != here:
                raise Violation("duplicates", f"{record.value!r} lies at {before} and at {here}")

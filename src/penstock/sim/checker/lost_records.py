"""An acked record is there: at the offset that its sender was told, with the value it sent."""

from penstock.sim.history import History
from penstock.sim.reading import FinalLog
from penstock.sim.trouble import Violation


def check_lost_records(history: History, logs: list[FinalLog]) -> None:
    for log in logs:
        known = history.of(log.partition)
        found: dict[int, bytes | None] = {record.offset: record.value for record in log.records}
        for offset, value in sorted(known.acked.items()):
            if offset < known.deletion_asked or offset >= known.damaged_from:
                continue
            if found.get(offset) != value:
                raise Violation(
                    "lost records",
                    f"{log.partition}: {value!r} was acked at offset {offset}, where"
                    f" {found.get(offset)!r} lies; the log is"
                    f" [{log.start_offset}, {log.end_offset})",
                )

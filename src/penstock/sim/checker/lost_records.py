"""An acked record is there, at the offset that its sender was told; compaction apart."""

from penstock.sim.errors import Violation
from penstock.sim.history import History
from penstock.sim.reading import FinalLog


def check_lost_records(history: History, logs: list[FinalLog]) -> None:
    for log in logs:
        if log.compacted:
            continue  # see `compaction`
        known = history.of(log.partition)
        found = {record.offset for record in log.records}
        for offset, name in sorted(known.acked.items()):
            gone = offset < known.gone_until or offset >= known.damaged_from
            if offset not in found and not gone:
                raise Violation(
                    "lost records",
                    f"{log.partition}: {name} was acked at offset {offset}, and the log is"
                    f" [{log.start_offset}, {log.end_offset})",
                )

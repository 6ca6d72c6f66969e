"""What is read was sent: no record that nobody sent, none changed, moved, or of a deleted topic."""

from penstock.sim.errors import Violation
from penstock.sim.history import NEVER, History
from penstock.sim.reading import FinalLog


def check_contents(history: History, logs: list[FinalLog]) -> None:
    for log in logs:
        for record in log.records:
            history.see(record)
        # Where compaction left a gap, a reader stands before it, and not at the batch.
        damaged_from = history.of(log.partition).damaged_from
        excused = damaged_from < NEVER if log.compacted else damaged_from <= (log.broken_at or 0)
        if log.broken_at is not None and not excused:
            raise Violation(
                "contents",
                f"{log.partition}: the batch at offset {log.broken_at} is corrupt, and no bit of"
                " it was flipped",
            )

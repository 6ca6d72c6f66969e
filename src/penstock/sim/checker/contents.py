"""What is read was sent: no record that nobody sent, none changed, none of a deleted topic."""

from penstock.sim.history import History
from penstock.sim.reading import FinalLog
from penstock.sim.trouble import Violation


def check_contents(history: History, logs: list[FinalLog]) -> None:
    for log in logs:
        damaged_from = history.of(log.partition).damaged_from
        for record in log.records:
            history.see(log.partition, record.offset, record.value)
            assert record.value is not None
            if record.key != history.sent[record.value].key:
                raise Violation(
                    "contents",
                    f"{log.partition} at offset {record.offset}: {record.value!r} has the key"
                    f" {record.key!r}",
                )
        if log.broken_at is not None and log.broken_at < damaged_from:
            raise Violation(
                "contents",
                f"{log.partition}: the batch at offset {log.broken_at} is corrupt, and no bit of"
                " it was flipped",
            )

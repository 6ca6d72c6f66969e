"""Compaction keeps each key's latest value and brings back none that was replaced or deleted.

the latest acked record of a key     has a value: it is there, or a later one of the key is
                                     is a tombstone: no record of the key before it is the last

A tombstone that was not acked, or whose ack a power loss has taken back, may be in the log all the
same: then the key may be gone.
"""

from penstock.sim.errors import Violation
from penstock.sim.history import NEVER, History, Sent
from penstock.sim.reading import FinalLog


def check_compaction(history: History, logs: list[FinalLog]) -> None:
    for log in logs:
        # What replaced a value may lie in a damaged batch, and be gone for that reason.
        if log.compacted and history.of(log.partition).damaged_from == NEVER:
            _check(history, log)


def _check(history: History, log: FinalLog) -> None:
    acked: dict[bytes, tuple[int, Sent]] = {}
    for offset, name in sorted(history.of(log.partition).acked.items()):
        sent = history.sent[name]
        acked[sent.key] = offset, sent
    promised = set(history.of(log.partition).acked.values())
    perhaps_deleted = {
        sent.key
        for sent in history.sent.values()
        if sent.topic == log.partition.topic and sent.value is None and sent.name not in promised
    }
    left = {record.key: record.offset for record in log.records}
    for key, (offset, sent) in acked.items():
        if offset < history.of(log.partition).gone_until:
            continue
        last = left.get(key)
        if last is None and (sent.value is None or key in perhaps_deleted):
            continue
        if last is None or last < offset:
            what = "deleted" if sent.value is None else "set"
            raise Violation(
                "compaction",
                f"{log.partition}: {key!r} was {what} by {sent.name} at offset {offset}, and the"
                f" last of it lies at {last}",
            )

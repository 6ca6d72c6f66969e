"""Offsets that count once their transaction is committed, by producer.

Of several records for one partition the last one written counts, whichever transaction ends first:
what a later record has made void is dropped.
"""

from collections.abc import Iterator

from penstock.groups.records import OffsetCommitted, OffsetValue, TransactionalOffset
from penstock.model.identity import ProducerId

Key = tuple[str, str, int]  # group, topic, partition


class PendingOffsets:
    """Invariant 1: a producer without pending offsets has no entry."""

    __slots__ = ("_by_producer", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, dict[Key, tuple[int, OffsetValue]]] = {}
        self._written = 0

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        key = (group, topic, partition)
        return any(key in pending for pending in self._by_producer.values())

    def put(self, record: TransactionalOffset) -> None:
        self._written += 1
        pending = self._by_producer.setdefault(record.producer_id, {})
        key = (record.group, record.topic, record.partition)
        pending[key] = (self._written, record.value)

    def overwrite(self, group: str, topic: str, partition: int) -> None:
        """The offset was committed, or deleted, outside of these transactions."""
        if self._by_producer:
            self._drop((group, topic, partition), before=self._written + 1)

    def commit(self, producer_id: ProducerId) -> Iterator[OffsetCommitted]:
        """What counts from now on."""
        for key, (number, value) in self._by_producer.pop(producer_id, {}).items():
            self._drop(key, before=number)
            group, topic, partition = key
            yield OffsetCommitted(group=group, topic=topic, partition=partition, value=value)

    def abort(self, producer_id: ProducerId) -> None:
        self._by_producer.pop(producer_id, None)

    def check(self) -> None:
        assert all(self._by_producer.values())  # invariant 1

    def _drop(self, key: Key, *, before: int) -> None:
        for producer_id, pending in tuple(self._by_producer.items()):
            found = pending.get(key)
            if found is not None and found[0] < before:
                del pending[key]
                if not pending:
                    del self._by_producer[producer_id]

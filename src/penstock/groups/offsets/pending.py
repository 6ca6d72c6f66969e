"""Offsets that become valid when their transaction is committed, by producer.

Of several records for one partition the last one written counts, whichever transaction ends first:
offsets that a later record overrides are dropped.

Invariants:
1. A producer without pending offsets has no entry; nor has a group, nor a partition.
2. Partitions know exactly those producers that have an offset pending for them.
"""

from collections.abc import Iterator

from penstock.groups.records import OffsetCommitted, OffsetValue, TransactionalOffset
from penstock.model.identity import ProducerId

Key = tuple[str, str, int]  # group, topic, partition
Place = tuple[str, int]  # topic, partition


class PendingOffsets:
    """By producer and by partition: there may be ten thousand open transactions."""

    __slots__ = ("_by_group", "_by_producer", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, dict[Key, tuple[int, OffsetValue]]] = {}
        self._by_group: dict[str, dict[Place, dict[ProducerId, None]]] = {}
        self._written = 0

    def __iter__(self) -> Iterator[str]:
        """The groups that have offsets pending."""
        return iter(self._by_group)

    def __contains__(self, group: str) -> bool:
        return group in self._by_group

    def of_group(self, group: str) -> Iterator[Place]:
        """The partitions for which a group has offsets pending."""
        return iter(self._by_group.get(group, {}))

    def values_of(self, group: str, topic: str, partition: int) -> Iterator[OffsetValue]:
        key = (group, topic, partition)
        for producer_id in self._by_group.get(group, {}).get((topic, partition), ()):
            yield self._by_producer[producer_id][key][1]

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._by_group.get(group, {})

    def put(self, record: TransactionalOffset) -> None:
        self._written += 1
        pending = self._by_producer.setdefault(record.producer_id, {})
        key = (record.group, record.topic, record.partition)
        pending[key] = (self._written, record.value)
        places = self._by_group.setdefault(record.group, {})
        places.setdefault((record.topic, record.partition), {})[record.producer_id] = None

    def overwrite(self, group: str, topic: str, partition: int) -> None:
        """The offset was committed, or deleted, outside of these transactions."""
        if self._by_producer:
            self._drop((group, topic, partition), before=self._written + 1)

    def commit(self, producer_id: ProducerId) -> Iterator[OffsetCommitted]:
        """The offsets that are committed now."""
        for key, (number, value) in self._take(producer_id).items():
            self._drop(key, before=number)
            group, topic, partition = key
            yield OffsetCommitted(group=group, topic=topic, partition=partition, value=value)

    def abort(self, producer_id: ProducerId) -> None:
        self._take(producer_id)

    def check(self) -> None:
        assert all(self._by_producer.values())  # invariant 1
        assert all(self._by_group.values())  # invariant 1
        found = {
            (producer_id, (group, *place))
            for group, places in self._by_group.items()
            for place, producers in places.items()
            for producer_id in producers
        }
        assert all(all(places.values()) for places in self._by_group.values())  # invariant 1
        assert found == {
            (producer_id, key) for producer_id, held in self._by_producer.items() for key in held
        }  # invariant 2

    def _take(self, producer_id: ProducerId) -> dict[Key, tuple[int, OffsetValue]]:
        taken = self._by_producer.pop(producer_id, {})
        for key in taken:
            self._forget(key, producer_id)
        return taken

    def _drop(self, key: Key, *, before: int) -> None:
        group, topic, partition = key
        for producer_id in tuple(self._by_group.get(group, {}).get((topic, partition), ())):
            pending = self._by_producer[producer_id]
            if pending[key][0] < before:
                del pending[key]
                if not pending:
                    del self._by_producer[producer_id]
                self._forget(key, producer_id)

    def _forget(self, key: Key, producer_id: ProducerId) -> None:
        group, topic, partition = key
        places = self._by_group[group]
        producers = places[topic, partition]
        del producers[producer_id]
        if not producers:
            del places[topic, partition]
        if not places:
            del self._by_group[group]

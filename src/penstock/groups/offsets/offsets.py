"""The committed offsets of a shard, by group, topic and partition.

Invariants:
1. A group or topic without offsets has no entry.
2. `count` is the number of offsets.
"""

from collections.abc import Iterator, Mapping

from penstock.groups.records import OffsetValue

OffsetsByPartition = Mapping[int, OffsetValue]
NO_TOPICS: Mapping[str, OffsetsByPartition] = {}


class Offsets:
    """Nested dicts: there may be a hundred thousand, and a group's topics are asked for at once."""

    __slots__ = ("_by_group", "count")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetValue]]] = {}
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        """The groups that have offsets, in the order of their first commits."""
        return iter(self._by_group)

    def __contains__(self, group: str) -> bool:
        return group in self._by_group

    def of_group(self, group: str) -> Mapping[str, OffsetsByPartition]:
        """By topic and partition, in the order of their first commits."""
        return self._by_group.get(group, NO_TOPICS)

    def find(self, group: str, topic: str, partition: int) -> OffsetValue | None:
        partitions = self.of_group(group).get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group: str, topic: str, partition: int, value: OffsetValue) -> None:
        topics = self._by_group.get(group)
        if topics is None:
            topics = self._by_group[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        before = len(partitions)
        partitions[partition] = value
        self.count += len(partitions) - before

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Forgets an offset, if there is one."""
        topics = self._by_group.get(group)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        self.count -= 1
        if not partitions:
            del topics[topic]
        if not topics:
            del self._by_group[group]

    def check(self) -> None:
        for topics in self._by_group.values():
            assert topics  # invariant 1
            assert all(topics.values())  # invariant 1
        assert self.count == sum(
            len(partitions) for topics in self._by_group.values() for partitions in topics.values()
        )  # invariant 2

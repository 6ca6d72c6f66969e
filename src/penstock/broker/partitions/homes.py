"""In which log directory each partition of this broker lies, and how many each directory has.

The numbers are kept, not counted: they are asked for with each change of the metadata.

Invariant 1: `_held` is the number of partitions of each directory, by path.
"""

from collections import Counter
from collections.abc import ItemsView, Iterable

from penstock.log.directory import LogDirectory
from penstock.model.identity import TopicPartition


class Homes:
    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, LogDirectory] = {}
        self._held: Counter[str] = Counter()

    # Queries

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._by_partition

    def __getitem__(self, partition: TopicPartition) -> LogDirectory:
        return self._by_partition[partition]

    def get(self, partition: TopicPartition) -> LogDirectory | None:
        return self._by_partition.get(partition)

    def items(self) -> ItemsView[TopicPartition, LogDirectory]:
        return self._by_partition.items()

    def emptiest(self, directories: Iterable[LogDirectory]) -> LogDirectory:
        """The first of those that have the fewest partitions."""
        return min(directories, key=lambda directory: self._held[directory.path])

    def check(self) -> None:
        held = Counter(directory.path for directory in self._by_partition.values())
        assert +self._held == held, "invariant 1"

    # Commands

    def put(self, partition: TopicPartition, directory: LogDirectory) -> None:
        self.remove(partition)
        self._by_partition[partition] = directory
        self._held[directory.path] += 1

    def remove(self, partition: TopicPartition) -> LogDirectory | None:
        """Where the partition was; None when it was nowhere."""
        home = self._by_partition.pop(partition, None)
        if home is not None:
            self._held[home.path] -= 1
        return home

    def drop(self, directory: LogDirectory) -> None:
        """Nothing lies in that directory any more."""
        for partition in [one for one, home in self._by_partition.items() if home is directory]:
            self.remove(partition)

"""In which log directory each partition of this broker lies, and how many each directory has.

The numbers are kept, not counted: they are asked for with each change of the metadata.

Invariants:
 1. `_held` is the number of partitions of each directory, by path.
 2. A partition has a home or a lost one, never both.
"""

from collections import Counter
from collections.abc import ItemsView, Iterable

from penstock.log.directory import LogDirectory
from penstock.model.identity import TopicPartition


class Homes:
    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, LogDirectory] = {}
        self._held: Counter[str] = Counter()
        self._lost: dict[TopicPartition, str] = {}  # of what was in a directory that has failed

    # Queries

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._by_partition

    def __getitem__(self, partition: TopicPartition) -> LogDirectory:
        return self._by_partition[partition]

    def get(self, partition: TopicPartition) -> LogDirectory | None:
        return self._by_partition.get(partition)

    def lost_of(self, partition: TopicPartition) -> str | None:
        """The path of the directory that had the partition when it failed."""
        return self._lost.get(partition)

    def items(self) -> ItemsView[TopicPartition, LogDirectory]:
        return self._by_partition.items()

    def emptiest(self, directories: Iterable[LogDirectory]) -> LogDirectory:
        """The first of those that have the fewest partitions."""
        return min(directories, key=lambda directory: self._held[directory.path])

    def check(self) -> None:
        held = Counter(directory.path for directory in self._by_partition.values())
        assert +self._held == held, "invariant 1"
        assert self._lost.keys().isdisjoint(self._by_partition), "invariant 2"

    # Commands

    def put(self, partition: TopicPartition, directory: LogDirectory) -> None:
        self.remove(partition)
        self._by_partition[partition] = directory
        self._held[directory.path] += 1

    def remove(self, partition: TopicPartition) -> LogDirectory | None:
        """Where the partition was; None when it was nowhere, or in a directory that has failed."""
        self._lost.pop(partition, None)
        home = self._by_partition.pop(partition, None)
        if home is not None:
            self._held[home.path] -= 1
        return home

    def drop(self, directory: LogDirectory) -> None:
        """The directory has failed: nothing lies in it any more."""
        for partition in [one for one, home in self._by_partition.items() if home is directory]:
            self.remove(partition)
            self._lost[partition] = directory.path

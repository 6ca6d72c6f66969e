"""Which partition a record goes to.

A key decides by its murmur2 hash, exactly as the Java client computes it, so that records of one
key written by either land in one partition. Records without a key are spread: `Sticky` fills one
partition's batch before it turns to the next (few, large batches), `RoundRobin` takes turns
record by record. Anything with `choose` may stand in their place; a plain function does too,
wrapped by `Custom`.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.records.write import murmur2


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Where the Java client puts this key in a topic of so many partitions."""
    assert partition_count > 0, partition_count
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class Partitioner(Protocol):
    def choose(self, *, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        """The partition, from 0 up to and without `count`."""

    def batch_closed(self, topic: str, partition: int) -> bool:
        """A batch was completed; true when records without a key go elsewhere from now on."""


class RoundRobin:
    """Records without a key take turns; a key decides by its hash."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def choose(self, *, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        if key is not None:
            return partition_of_key(key, count)
        turn = self._next.get(topic, 0) % count
        self._next[topic] = turn + 1
        return turn

    def batch_closed(self, topic: str, partition: int) -> bool:
        return False


class Sticky:
    """Records without a key stay with one partition until its batch is complete.

    The next partition is the one after, starting from `start` so that many producers do not all
    begin at 0; over time each gets as many batches as any other.
    """

    def __init__(self, *, start: int = 0) -> None:
        assert start >= 0, start
        self._start = start
        self._turns: dict[str, int] = {}
        self._chosen: dict[str, int] = {}

    def choose(self, *, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        if key is not None:
            return partition_of_key(key, count)
        chosen = self._turns.setdefault(topic, self._start) % count
        self._chosen[topic] = chosen
        return chosen

    def batch_closed(self, topic: str, partition: int) -> bool:
        # Batches of other partitions, filled by keyed records, close too: they say nothing here.
        if self._chosen.get(topic) != partition:
            return False
        self._turns[topic] += 1
        return True


class Custom:
    """A function of the user's own: (key, value, partition count) -> partition."""

    def __init__(self, function: Callable[[bytes | None, bytes | None, int], int]) -> None:
        self._function = function

    def choose(self, *, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        partition = self._function(key, value, count)
        if not 0 <= partition < count:
            raise ValueError(f"the partitioner chose {partition}; {topic} has {count} partitions")
        return partition

    def batch_closed(self, topic: str, partition: int) -> bool:
        return False

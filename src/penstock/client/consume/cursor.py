"""Where a consumer stands in each of its partitions, and what to fetch next.

Plain state without tasks: `fetchable` says which partitions to ask for from where, `fetched`
takes what came, `take` hands records out. A partition is fetched ahead of what was handed out,
until the bound is reached. The answer to a fetch or look-up is void when the cursor has been moved
since, or the partition been given back, even if it was given again: each move has a number.

Invariants:
 1. Data of a partition stands in `_arrived` in the order of its offsets, without gaps: `position`
    is in the first of it, `fetch_position` is the end of the last.
 2. Data in memory stays below the bound plus one reply of each broker.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum

from penstock.client.consume.fetched_data import ConsumedRecord, FetchedData
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.errors import CorruptBatch


class Reset(Enum):
    """Where to start when there is no position, or when it is out of the log's range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"  # that is an error then


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReplica:
    """A follower in the reader's rack, to which the leader of this epoch has sent it (KIP-392)."""

    node: NodeId
    leader_epoch: LeaderEpoch
    until_ms: int  # then the leader is asked again: there may be a nearer one
    is_avoided: bool = False  # it failed: the leader is read in its place


@dataclass(slots=True, kw_only=True)
class Cursor:
    partition: TopicPartition
    position: Offset | None = None  # the next record to hand out; None until it has been looked up
    fetch_position: Offset | None = None
    leader_epoch: LeaderEpoch | None = None  # of the last record before `position`, if known
    look_up: Reset  # which end of the log to look up while there is no position
    move: int = 0  # the number of the last one from outside: no two of `Cursors` share one
    paused: bool = False
    fetching: bool = False
    retry_at_ms: int = 0
    read_replica: ReadReplica | None = None  # None: it is read from its leader
    replica_failures: int = 0  # fetches from read replicas that failed since one succeeded


class Cursors:
    def __init__(self, *, buffered_bytes_max: int, reset: Reset) -> None:
        assert buffered_bytes_max > 0
        self.buffered_bytes_max = buffered_bytes_max
        self.reset = reset
        self.buffered_bytes = 0
        self.by_partition: dict[TopicPartition, Cursor] = {}
        self._arrived: deque[FetchedData] = deque()
        self._last_move = 0
        self._error: CorruptBatch | None = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions and no others; the ones kept keep their positions."""
        before = self.by_partition
        self.by_partition = {
            partition: before.get(partition) or self._new_cursor(partition)
            for partition in partitions
        }
        for partition in before:
            if partition not in self.by_partition:
                self._drop_arrived(partition)

    def seek(self, partition: TopicPartition, position: Offset) -> None:
        cursor = self.by_partition[partition]
        cursor.position = cursor.fetch_position = position
        cursor.leader_epoch = None
        self._moved(cursor)

    def seek_to_end_of_log(self, partition: TopicPartition, end: Reset) -> None:
        """To one end of the log or the other; which offset that is must be looked up first."""
        cursor = self.by_partition[partition]
        cursor.position = cursor.fetch_position = None
        cursor.leader_epoch = None
        cursor.look_up = end
        self._moved(cursor)

    def looked_up(self, partition: TopicPartition, position: Offset, *, move: int) -> None:
        """The answer to a look-up; void when the user has moved the cursor meanwhile."""
        cursor = self.by_partition.get(partition)
        if cursor is not None and cursor.move == move:
            assert cursor.position is None
            cursor.position = cursor.fetch_position = position
            cursor.retry_at_ms = 0

    def without_position(self, now_ms: int) -> list[Cursor]:
        return [
            cursor
            for cursor in self.by_partition.values()
            if cursor.position is None and cursor.retry_at_ms <= now_ms
        ]

    def fetchable(self, now_ms: int) -> list[Cursor]:
        """What a fetch should ask for now."""
        if self.buffered_bytes >= self.buffered_bytes_max:
            return []
        return [
            cursor
            for cursor in self.by_partition.values()
            if cursor.fetch_position is not None
            and not cursor.paused
            and not cursor.fetching
            and cursor.retry_at_ms <= now_ms
        ]

    def fetched(self, data: FetchedData, *, move: int) -> None:
        """Takes in what came; in vain when the partition was given back or moved meanwhile."""
        cursor = self.by_partition.get(data.partition)
        if cursor is None or cursor.move != move or data.size_bytes == 0:
            return
        assert cursor.fetch_position == data.position, (cursor.fetch_position, data.position)
        self._arrived.append(data)
        self.buffered_bytes += data.size_bytes
        cursor.fetch_position = data.end_offset

    def out_of_range(self, partition: TopicPartition, *, move: int) -> bool:
        """The broker has no such offset. Starts over as the reset rule says; false when that is
        an error.

        Records fetched before are handed out first: until then the fetch is simply tried again.
        """
        cursor = self.by_partition.get(partition)
        if cursor is None or cursor.move != move or cursor.position != cursor.fetch_position:
            return True
        if self.reset is Reset.NONE:
            return False
        self.seek_to_end_of_log(partition, self.reset)
        return True

    def take(self, count: int) -> list[ConsumedRecord]:
        """Up to `count` records of partitions that are not paused, oldest arrival first.

        Raises CorruptBatch where a partition can't be read on, once all records before it were
        handed out.
        """
        taken: list[ConsumedRecord] = []
        for data in list(self._arrived):
            if len(taken) >= count or self._error is not None:
                break
            cursor = self.by_partition[data.partition]
            if cursor.paused:
                continue
            taken.extend(data.take(count - len(taken)))
            cursor.position = data.position
            if data.leader_epoch is not None:
                cursor.leader_epoch = data.leader_epoch
            if data.exhausted:
                self._arrived.remove(data)
                self.buffered_bytes -= data.size_bytes
                self._error = data.error
                if data.error is not None:
                    # Whatever follows is fetched again from the bad batch on: nobody skips it
                    # unseen.
                    self.seek(data.partition, data.position)
        if not taken and self._error is not None:
            error, self._error = self._error, None
            raise error
        return taken

    def check(self) -> None:
        assert self.buffered_bytes == sum(data.size_bytes for data in self._arrived)
        expected = {partition: c.position for partition, c in self.by_partition.items()}
        for data in self._arrived:
            assert data.position == expected[data.partition], "invariant 1"
            expected[data.partition] = data.end_offset
        for partition, cursor in self.by_partition.items():
            assert cursor.fetch_position == expected[partition], "invariant 1"

    def _new_cursor(self, partition: TopicPartition) -> Cursor:
        return Cursor(partition=partition, look_up=self.reset, move=self._next_move())

    def _next_move(self) -> int:
        self._last_move += 1
        return self._last_move

    def _moved(self, cursor: Cursor) -> None:
        cursor.move = self._next_move()
        cursor.retry_at_ms = 0
        self._drop_arrived(cursor.partition)

    def _drop_arrived(self, partition: TopicPartition) -> None:
        self._arrived = deque(data for data in self._arrived if data.partition != partition)
        self.buffered_bytes = sum(data.size_bytes for data in self._arrived)

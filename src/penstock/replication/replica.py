"""One replica of a partition on this node: the log, the leader epoch, and how far readers may see.

A replica is led here (`replication/partition`) or follows a leader on another node
(`replication/follower`). When that changes, the other one is made on the same log and takes over
what was known. Retention, compaction, syncing, producer snapshots and checkpoints treat both alike:
they work with this class.

Invariants:
 1. start offset <= high watermark <= end offset. The high watermark goes back only when records
    below it are cut off, which takes an unclean election.
 2. After `end` nothing is appended, and there are no observers.
 3. `read_committed` readers do not pass a transaction before its marker is committed.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.replication.rules import sync_records_of
from penstock.replication.topic_traffic import TopicTraffic
from penstock.replication.visibility import last_stable_offset, vouched_offset


class Observer(Protocol):
    """Waits for something to be appended, or to become visible."""

    def advanced(self, partition: "Replica", byte_count: int) -> None:
        """The log grew, was synced, or its high watermark or a start of it moved.

        About `byte_count` more bytes are below the high watermark: 0 when it did not move.
        """

    def ended(self, partition: "Replica") -> None:
        """This replica is not served here any more, or its leader epoch is another one."""


class Replica:
    """What led and followed replicas have in common."""

    __slots__ = (
        "_first_unstable_offset",
        "_hidden_bytes",
        "_sync_records",
        "_uncommitted_ends",
        "_vouched_offset",
        "changes",
        "has_ended",
        "high_watermark",
        "is_internal",
        "is_offline",
        "leader_epoch",
        "log",
        "observers",
        "partition_epoch",
        "traffic",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        high_watermark: Offset | None,
        uncommitted_ends: Iterable[tuple[Offset, Offset]] | None,
    ) -> None:
        """`high_watermark` is what was known of it: by the checkpoint, or by this replica before
        it was led or followed. What the log has lost since, or dropped, it cannot show.
        `uncommitted_ends` likewise; without them they are looked for in the log, which may take
        seconds.
        """
        self.log = log
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        known = log.start_offset if high_watermark is None else high_watermark
        self.high_watermark = max(log.start_offset, min(known, log.end_offset))
        self.observers: dict[Observer, None] = {}  # in the order in which they came
        self.changes = 0  # counts what observers are told, for those who are about to become one
        self.has_ended = False
        self.is_offline = False  # it has ended because its disk failed
        self.traffic = TopicTraffic()  # that of all replicas of the topic, where there are some
        self.is_internal = log.partition.topic in INTERNAL_TOPICS
        self._sync_records = sync_records_of(log.settings)
        # Kept up only where acks wait for a sync.
        self._vouched_offset = self._vouched_at_first()
        # At least what lies between the high watermark and the end.
        self._hidden_bytes = 0 if self.high_watermark == log.end_offset else log.size_bytes
        self._first_unstable_offset = log.producers.first_open_offset
        # Markers above the high watermark: where each ends, and what was unstable before it.
        if uncommitted_ends is None:
            uncommitted_ends = log.uncommitted_ends(self.high_watermark)
        # Those that were known may be committed by now: the only replica commits what it has.
        self._uncommitted_ends = deque(
            ended for ended in uncommitted_ends if ended[0] > self.high_watermark
        )
        log.producers.note_ended(self.high_watermark)

    @property
    def name(self) -> TopicPartition:
        return self.log.partition

    @property
    def topic_id(self) -> TopicId:
        return self.log.topic_id

    @property
    def settings(self) -> TopicSettings:
        return self.log.settings

    @property
    def last_stable_offset(self) -> Offset:
        return last_stable_offset(
            start_offset=self.log.start_offset,
            high_watermark=self.high_watermark,
            first_unstable_offset=(
                self._uncommitted_ends[0][1]
                if self._uncommitted_ends
                else self._first_unstable_offset
            ),
        )

    @property
    def uncommitted_ends(self) -> tuple[tuple[Offset, Offset], ...]:
        """For a replica that takes over: see `PartitionLog.uncommitted_ends`."""
        return tuple(self._uncommitted_ends)

    @property
    def wants_sync(self) -> bool:
        """Whether acks, readers or the leader wait for a sync of the log."""
        return self._sync_records is not None and self._vouched_offset < self.log.end_offset

    def vouches_for(self, offset: Offset) -> bool:
        """Whether this copy up to `offset` is as durable as the settings require."""
        return self._sync_records is None or self._vouched_offset >= offset

    def has_offset(self, offset: int) -> bool:
        """Whether a reader may ask for `offset`; the end offset is included."""
        return self.log.start_offset <= offset <= self.log.end_offset

    def check(self) -> None:
        assert self.log.start_offset <= self.high_watermark  # invariant 1
        assert self.high_watermark <= self.log.end_offset  # invariant 1
        assert not (self.has_ended and self.observers)  # invariant 2
        for end_offset, unstable_offset in self._uncommitted_ends:
            assert self.high_watermark < end_offset  # invariant 3
            assert self.last_stable_offset <= max(unstable_offset, self.log.start_offset)

    def read(
        self, offset: int, *, size_bytes_max: int, oversized_first: bool, committed_only: bool
    ) -> LogSlice | None:
        """Whole batches from `offset` on that a client may see; None when there are none yet."""
        assert self.has_offset(offset), offset
        until_offset = self.last_stable_offset if committed_only else self.high_watermark
        if offset >= until_offset or (size_bytes_max <= 0 and not oversized_first):
            return None
        return self.log.read(
            ReadBounds(
                from_offset=Offset(offset),
                until_offset=until_offset,
                size_bytes_max=size_bytes_max,
                oversized_first=oversized_first,
            )
        )

    def advance_start(self, offset: Offset) -> None:
        """Drops records below `offset`, which is at most the high watermark."""
        assert offset <= self.high_watermark, (offset, self.high_watermark)
        self.log.advance_start(offset)

    def start_moved(self) -> None:
        """The log begins elsewhere, here or on a follower: who waits for that is told."""
        for observer in tuple(self.observers):
            observer.advanced(self, 0)

    def move_to(self, log: PartitionLog) -> None:
        """Another log takes the place of the present one: a copy of it in another directory, all of
        which is synced. Clients and followers do not notice.
        """
        before = self.log
        assert not self.has_ended, self.name
        assert log.partition == before.partition
        assert log.start_offset == before.start_offset, (log.start_offset, before.start_offset)
        assert log.end_offset == before.end_offset, (log.end_offset, before.end_offset)
        assert log.recovery_point == log.end_offset, (log.recovery_point, log.end_offset)
        assert not before.producers.ended, "they are taken up after each append"
        self.log = log
        log.producers.note_ended(self.high_watermark)
        self._first_unstable_offset = log.producers.first_open_offset

    def reconfigure(self, settings: TopicSettings) -> None:
        self.log.reconfigure(settings)
        if self._sync_records is None:
            self._vouched_offset = self._vouched_at_first()
        self._sync_records = sync_records_of(settings)

    def synced(self) -> None:
        """The log has been synced, up to its recovery point."""
        raise NotImplementedError

    def end(self, *, offline: bool = False) -> None:
        """The replica is no longer served as what it was; its observers are notified."""
        self.has_ended = True
        self.is_offline = offline
        self._notify_end()

    def _vouched_at_first(self) -> Offset:
        """When it begins to matter: what was shown stays shown."""
        return self.high_watermark

    def _vouch(self, end_offset: Offset) -> Offset:
        if self._sync_records is None:
            return end_offset
        reached = vouched_offset(
            end_offset=end_offset,
            synced_offset=self.log.recovery_point,
            sync_records=self._sync_records,
        )
        self._vouched_offset = max(self._vouched_offset, reached)
        return self._vouched_offset

    def _transactions_changed(self) -> None:
        """Call it after batches of transactions, or markers, were appended."""
        producers = self.log.producers
        if producers.ended:
            self._uncommitted_ends.extend(producers.ended)
            producers.ended.clear()
        self._first_unstable_offset = producers.first_open_offset

    def _log_was_cut(self) -> None:
        """Call it after records were cut off at the end of the log."""
        log = self.log
        self.high_watermark = max(log.start_offset, min(self.high_watermark, log.end_offset))
        self._vouched_offset = min(self._vouched_offset, log.end_offset)
        while self._uncommitted_ends and self._uncommitted_ends[-1][0] > log.end_offset:
            self._uncommitted_ends.pop()
        while self._uncommitted_ends and self._uncommitted_ends[0][0] <= self.high_watermark:
            self._uncommitted_ends.popleft()  # the log begins behind them
        log.producers.note_ended(self.high_watermark)
        self._first_unstable_offset = log.producers.first_open_offset
        self.changes += 1

    def _notify_end(self) -> None:
        self.changes += 1
        observers = tuple(self.observers)
        self.observers.clear()
        for observer in observers:
            observer.ended(self)

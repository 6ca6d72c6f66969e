"""One partition as its leader holds it: the log, the leader epoch, and how far readers may see.

`append` is a whole produce in one step: check, plan, number, write, make visible. Nothing in it
waits, so no other request and no change of leadership can come between the check and the append.
What waits for an append (a long poll, an ack of all replicas) is an `Observer`; the shell creates
them, and without observers an append costs one more truth test. Observers that wait for an ack are
kept separately: an append that commits nothing does not concern them, and there may be many.

Invariants:
 1. start offset <= high watermark <= end offset, and the high watermark never goes back.
 2. The leader itself is in sync; followers are in sync or not at all in `_follower_ends`.
 3. After `end` nothing is appended, and there are no observers.
 4. `read_committed` readers do not pass a transaction before its marker is committed.
 5. Where acks wait for a sync, the offset up to which the leader's copy is safe never goes back,
    and the high watermark never passes it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerId, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.records.batch import BatchView, whole_batch
from penstock.records.compression import Scratch
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.errors import CorruptBatch, InvalidBatch
from penstock.records.layout import CONTROL_FLAG, NO_TIMESTAMP, TRANSACTIONAL_FLAG, TimestampType
from penstock.records.validate import check_produced
from penstock.replication.guard import Guard, Guards, in_transaction
from penstock.replication.leader import (
    Duplicate,
    Refusal,
    check_leader_epoch,
    plan_append,
    refuse_too_few_in_sync,
)
from penstock.replication.marker import EPOCH_PER_TRANSACTION, Marker, refuse_marker
from penstock.replication.refused_sequences import RefusedSequences
from penstock.replication.rules import rules_of, sync_records_of
from penstock.replication.visibility import (
    advance_high_watermark,
    last_stable_offset,
    vouched_offset,
)
from penstock.world.errors import DiskError

LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
# A batch with one of these moves stable offsets.
READERS_WAIT: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


class Observer(Protocol):
    """Waits for something to be appended, or to become visible."""

    def advanced(self, partition: "Partition", byte_count: int) -> None:
        """The log grew, was synced, or its high watermark moved.

        About `byte_count` more bytes are below the high watermark: 0 when it did not move.
        """

    def ended(self, partition: "Partition") -> None:
        """This broker no longer leads the partition, or leads it in another epoch."""


@dataclass(slots=True, kw_only=True, init=False)
class Appended:
    """The outcome of an append, for the reply. Built per batch: see `log/reading` on its
    `__init__`.
    """

    base_offset: Offset
    end_offset: Offset  # the ack of all replicas waits for the high watermark to reach it
    log_append_time_ms: int  # NO_TIMESTAMP where the producer's own timestamps count

    def __init__(self, *, base_offset: Offset, end_offset: Offset, log_append_time_ms: int) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.log_append_time_ms = log_append_time_ms


class Partition:
    """The leader's side of one partition."""

    __slots__ = (
        "_first_unstable_offset",
        "_follower_ends",
        "_hidden_bytes",
        "_refused",
        "_replica_count",
        "_rules",
        "_scratch",
        "_sync_records",
        "_uncommitted_ends",
        "_unstable_bytes",
        "_vouched_offset",
        "ack_observers",
        "changes",
        "guards",
        "has_ended",
        "high_watermark",
        "is_internal",
        "is_offline",
        "leader_epoch",
        "log",
        "observers",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        leader_epoch: LeaderEpoch,
        replica_count: int = 1,
        in_sync_followers: Iterable[NodeId] = (),
        scratch: Scratch | None = None,
    ) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.start_offset
        self.observers: dict[Observer, None] = {}  # in the order in which they came
        self.ack_observers: dict[Observer, None] = {}  # the same; not notified of a mere append
        self.changes = 0  # counts what observers are told, for those who are about to become one
        self.guards = Guards()  # of producers whose transactions are being verified
        self._refused = RefusedSequences()
        self.has_ended = False
        self.is_offline = False  # it has ended because its disk failed
        self.is_internal = log.partition.topic in INTERNAL_TOPICS
        self._replica_count = replica_count
        self._follower_ends = dict.fromkeys(in_sync_followers, log.start_offset)
        self._sync_records = sync_records_of(log.settings)
        self._vouched_offset = log.start_offset  # kept up only where acks wait for a sync
        self._hidden_bytes = 0  # at least what lies between the high watermark and the end
        log.begin_epoch(leader_epoch)
        self._first_unstable_offset = log.producers.first_open_offset
        # Markers above the high watermark: where each ends, and what was unstable before it.
        self._uncommitted_ends: deque[tuple[Offset, Offset]] = deque()
        # At least what stands behind an open transaction: a marker shows it to waiting readers.
        self._unstable_bytes = 0 if self._first_unstable_offset is None else log.size_bytes
        self._scratch = scratch
        self._rules = rules_of(log.settings, scratch=scratch)
        self._advance()

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
    def in_sync_count(self) -> int:
        return 1 + len(self._follower_ends)

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
    def commits_at_once(self) -> bool:
        """Whether an append is committed when it returns: no follower and no sync is needed."""
        return not self._follower_ends and self._sync_records is None

    @property
    def wants_sync(self) -> bool:
        """Whether acks or readers wait for a sync of the log."""
        return self._sync_records is not None and self._vouched_offset < self.log.end_offset

    def vouches_for(self, offset: Offset) -> bool:
        """Whether the leader's own copy up to `offset` is as durable as the settings require."""
        return self._sync_records is None or self._vouched_offset >= offset

    def check(self) -> None:
        assert self.log.start_offset <= self.high_watermark  # invariant 1
        assert self.high_watermark <= self.log.end_offset  # invariant 1
        assert self.in_sync_count <= self._replica_count  # invariant 2
        assert not (self.has_ended and self.observers)  # invariant 3
        assert not (self.has_ended and self.ack_observers)  # invariant 3
        for end_offset, unstable_offset in self._uncommitted_ends:
            assert self.high_watermark < end_offset  # invariant 4
            assert self.last_stable_offset <= max(unstable_offset, self.log.start_offset)
        if self._sync_records is not None:
            assert self.high_watermark <= self._vouched_offset  # invariant 5

    def check_leader_epoch(self, asked: int) -> ErrorCode:
        return check_leader_epoch(asked=asked, known=self.leader_epoch)

    def has_offset(self, offset: int) -> bool:
        """Whether a reader may ask for `offset`; the end offset is included."""
        return self.log.start_offset <= offset <= self.log.end_offset

    def refuse_all_acks(self) -> Refusal | None:
        """Why a write with acks=all is refused now, if it is."""
        if self._replica_count == 1:
            return None
        return refuse_too_few_in_sync(
            in_sync_count=self.in_sync_count,
            replica_count=self._replica_count,
            in_sync_min=self.settings.min_insync_replicas,
        )

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

    def in_transaction(self, producer_id: ProducerId, *, epoch: int) -> bool:
        """Whether the producer's transaction is open in this partition."""
        return self.guards.found_open(producer_id) and in_transaction(
            self.log.producers.by_id.get(producer_id), epoch=epoch
        )

    def require_transaction(self, producer_id: ProducerId, *, epoch: int, guard: Guard) -> None:
        """RequestError when a coordinator must not write for the producer's transaction."""
        producer = self.log.producers.by_id.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.guards.holds(producer_id, guard):
            self.guards.note_open(producer_id)
        elif not self.in_transaction(producer_id, epoch=epoch):
            raise RequestError(ErrorCode.INVALID_TXN_STATE)

    def append(
        self,
        data: memoryview,
        *,
        all_acks: bool,
        zstd_allowed: bool = True,
        now_ms: int,
        guard: Guard | None = None,
    ) -> Appended | Refusal:
        """Appends the one batch of a produce request, writing its offset into `data`. Records of a
        transaction come with the guard under which it was verified; where it is open, any guard
        will do.

        Raises InvalidBatch for a mistake of its sender, and DiskError, after which nothing has
        changed.
        """
        assert not self.has_ended, self.name
        if all_acks and (refusal := self.refuse_all_acks()) is not None:
            self.note_refused(data, refusal.code, now_ms=now_ms)
            return refusal
        log = self.log
        rules = self._rules
        rules.now_ms = now_ms
        rules.zstd_allowed = zstd_allowed
        try:
            batch = check_produced(data, rules)
        except InvalidBatch as error:
            if self._refused.by_producer:
                self.note_refused(data, error.code, now_ms=now_ms)
            raise
        base_offset = log.end_offset
        refused = self._refused
        plan = plan_append(
            batch,
            end_offset=base_offset,
            leader_epoch=self.leader_epoch,
            producers=log.producers.by_id,
            verified=guard is not None and self._may_write(guard, batch),
            first_sequence=None if guard is None else guard.first_sequence,
            earlier_code=(
                refused.code_of_earlier(batch, now_ms=now_ms) if refused.by_producer else None
            ),
        )
        if isinstance(plan, Refusal):
            if refused.by_producer:
                refused.note(batch, plan.code, now_ms=now_ms)
            return plan
        if isinstance(plan, Duplicate):
            refused.note_in_log(batch)
            return Appended(
                base_offset=plan.base_offset,
                end_offset=Offset(plan.last_offset + 1),
                log_append_time_ms=plan.timestamp_ms,
            )
        batch.assign(base_offset=plan.base_offset, leader_epoch=plan.leader_epoch)
        try:
            self.append_numbered((batch,), now_ms=now_ms)
        except DiskError:
            refused.note(batch, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=now_ms)
            raise
        if refused.by_producer:
            refused.note_in_log(batch)
        if guard is not None:
            self.guards.note_open(batch.producer_id)
        end_offset = log.end_offset
        assert end_offset == batch.next_offset, (end_offset, batch.next_offset)
        by_our_clock = rules.timestamp_type is LOG_APPEND_TIME
        return Appended(
            base_offset=base_offset,
            end_offset=end_offset,
            log_append_time_ms=batch.max_timestamp if by_our_clock else NO_TIMESTAMP,
        )

    def note_refused(self, data: memoryview, code: ErrorCode, *, now_ms: int) -> None:
        """A batch was refused before it was checked: later batches of its producer must not be
        appended before it.
        """
        try:
            batch = whole_batch(data)
        except CorruptBatch:
            return
        if batch is not None and batch.checksum_matches():
            self._refused.note(batch, code, now_ms=now_ms)

    def end_transaction(self, marker: Marker, *, now_ms: int) -> Offset | Refusal:
        """Writes the marker of a coordinator; returns the offset up to which it must be committed.

        DiskError: nothing has changed.
        """
        assert not self.has_ended, self.name
        producer = self.log.producers.by_id.get(marker.producer_id)
        refusal = self.refuse_all_acks() or refuse_marker(marker, producer)
        if refusal is not None:
            return refusal
        batch = end_transaction_batch(
            EndTransaction(committed=marker.committed, coordinator_epoch=marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
            base_offset=self.log.end_offset,
            leader_epoch=self.leader_epoch,
        )
        self.append_numbered((BatchView(memoryview(batch)),), now_ms=now_ms)
        if marker.transaction_version < EPOCH_PER_TRANSACTION:
            self.guards.clear(marker.producer_id)
        return self.log.end_offset

    def append_numbered(self, batches: Sequence[BatchView], *, now_ms: int) -> None:
        """Appends batches that have their offsets already; makes visible what may be visible."""
        log = self.log
        log.append(batches, now_ms=now_ms)
        for batch in batches:
            self._hidden_bytes += batch.size_bytes
            if batch.attributes & READERS_WAIT:
                unstable_offset = self._first_unstable_offset
                if batch.is_control and unstable_offset is not None:
                    self._uncommitted_ends.append((batch.next_offset, unstable_offset))
                self._first_unstable_offset = log.producers.first_open_offset
                if batch.is_control:
                    self.guards.end(batch.producer_id, epoch=batch.producer_epoch)
                    self._refused.transaction_ended(batch)
                    self._hidden_bytes += self._unstable_bytes
            is_stable = self._first_unstable_offset is None
            self._unstable_bytes = 0 if is_stable else self._unstable_bytes + batch.size_bytes
        if not self._advance():
            # Followers read beyond the high watermark.
            self.changes += 1
            for observer in tuple(self.observers):
                observer.advanced(self, 0)

    def follower_reached(self, node: NodeId, end_offset: Offset) -> None:
        """An in-sync follower has the log up to `end_offset`."""
        if node in self._follower_ends:
            self._follower_ends[node] = end_offset
            self._advance()

    def synced(self) -> None:
        """The log has been synced, up to its recovery point."""
        if self._sync_records is None:
            return
        if not self._advance():
            # A follower holds it back; observers that wait only for the leader can continue.
            for observer in (*self.observers, *self.ack_observers):
                observer.advanced(self, 0)

    def change_replicas(
        self, *, leader_epoch: LeaderEpoch, replica_count: int, in_sync_followers: Iterable[NodeId]
    ) -> None:
        """The metadata has changed the replicas, or the epoch in which this broker leads."""
        assert leader_epoch >= self.leader_epoch, (leader_epoch, self.leader_epoch)
        # What a follower had reached under an older epoch it may have truncated since.
        known = self._follower_ends if leader_epoch == self.leader_epoch else {}
        self._replica_count = replica_count
        self._follower_ends = {
            node: known.get(node, self.log.start_offset) for node in in_sync_followers
        }
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.log.begin_epoch(leader_epoch)
            self._notify_end()
        self._advance()

    def reconfigure(self, settings: TopicSettings) -> None:
        self.log.reconfigure(settings)
        self._rules = rules_of(settings, scratch=self._scratch)
        if self._sync_records is None:
            self._vouched_offset = self.high_watermark  # what was shown stays shown
        self._sync_records = sync_records_of(settings)
        self._advance()

    def advance_start(self, offset: Offset) -> None:
        """Drops records below `offset`, which is at most the high watermark."""
        assert offset <= self.high_watermark, (offset, self.high_watermark)
        self.log.advance_start(offset)

    def end(self, *, offline: bool = False) -> None:
        """This broker no longer leads the partition; its observers are notified."""
        self.has_ended = True
        self.is_offline = offline
        self._refused.clear()
        self._notify_end()

    def _may_write(self, guard: Guard, batch: BatchView) -> bool:
        id_, epoch = batch.producer_id, batch.producer_epoch
        return self.guards.holds(id_, guard) or self.in_transaction(id_, epoch=epoch)

    def _advance(self) -> bool:
        """Whether the high watermark moved."""
        end_offset = self.log.end_offset
        if not self._follower_ends and self._sync_records is None:
            reached = end_offset  # as `commits_at_once` says, without a call
        else:
            reached = advance_high_watermark(
                self.high_watermark,
                vouched_offset=self._vouch(end_offset),
                follower_ends=self._follower_ends.values(),
            )
        if reached == self.high_watermark:
            return False
        assert reached > self.high_watermark, (reached, self.high_watermark)
        self.high_watermark = reached
        while self._uncommitted_ends and self._uncommitted_ends[0][0] <= reached:
            self._uncommitted_ends.popleft()
        self.changes += 1
        # Too many bytes make an observer look once too often; too few would let it sleep.
        byte_count = self._hidden_bytes
        if reached == end_offset:
            self._hidden_bytes = 0
        if self.observers or self.ack_observers:
            for observer in (*self.observers, *self.ack_observers):
                observer.advanced(self, byte_count)
        return True

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

    def _notify_end(self) -> None:
        self.changes += 1
        observers = (*self.observers, *self.ack_observers)
        self.observers.clear()
        self.ack_observers.clear()
        for observer in observers:
            observer.ended(self)

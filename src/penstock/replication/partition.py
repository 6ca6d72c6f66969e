"""One partition as its leader holds it: the log, the leader epoch, and how far readers may see.

`append` is a whole produce in one step: check, plan, number, write, make visible. Nothing in it
waits, so no other request and no change of leadership can come between the check and the append.
What waits for an append (a long poll, an ack of all replicas) is an `Observer`; the shell creates
them, and without observers an append costs one more truth test. Observers that wait for an ack are
kept separately: an append that commits nothing does not concern them, and there may be many.

What the leader knows of its followers, and the in-sync set, is in `replication/followers`.

Invariants, besides those of `replication/replica`:
 4. The high watermark never goes back, and stands still while there are fewer in-sync replicas than
    `min.insync.replicas` asks for.
 5. Where acks wait for a sync, the offset up to which the leader's copy is safe never goes back,
    and the high watermark never passes it.
 6. After `end` no ack waits; and none that the high watermark has reached.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView, whole_batch
from penstock.records.compression import Scratch
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.errors import CorruptBatch, InvalidBatch
from penstock.records.layout import CONTROL_FLAG, NO_TIMESTAMP, TRANSACTIONAL_FLAG, TimestampType
from penstock.records.validate import check_produced
from penstock.replication.ack_queue import AckQueue
from penstock.replication.followers import NO_BROKER_EPOCH, Followers, InSyncChange
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
from penstock.replication.replica import Observer, Replica
from penstock.replication.rules import rules_of, sync_records_of
from penstock.replication.visibility import advance_high_watermark
from penstock.world.errors import DiskError

LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
# A batch with one of these moves stable offsets.
READERS_WAIT: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
NO_NODE: Final = NodeId(-1)


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


class Partition(Replica):
    """The leader's side of one partition."""

    __slots__ = (
        "_refused",
        "_rules",
        "_scratch",
        "_unstable_bytes",
        "ack_observers",
        "acks",
        "commits_at_once",
        "followers",
        "guards",
        "leader_acks",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int = 0,
        node_id: NodeId = NO_NODE,
        replicas: Iterable[NodeId] = (),
        in_sync: Iterable[NodeId] = (),
        recovering: bool = False,
        high_watermark: Offset | None = None,
        uncommitted_ends: Iterable[tuple[Offset, Offset]] | None = None,
        scratch: Scratch | None = None,
        now_ms: int = 0,
    ) -> None:
        """`replicas` and `in_sync` are as in the metadata, with this node; without them it is the
        only replica. `recovering`: it was elected without being in sync.
        """
        replicas = tuple(replicas)
        if len(replicas) <= 1 and high_watermark is not None:
            # Nobody else is asked: what is as durable as the settings require is committed.
            is_synced_first = sync_records_of(log.settings) is not None
            durable_offset = log.recovery_point if is_synced_first else log.end_offset
            high_watermark = max(high_watermark, durable_offset)
        super().__init__(
            log,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            high_watermark=high_watermark,
            uncommitted_ends=uncommitted_ends,
        )
        self.ack_observers: dict[Observer, None] = {}  # not notified of a mere append
        self.acks = AckQueue()  # wait for the high watermark
        self.leader_acks = AckQueue()  # wait for a sync of the leader's copy
        self.guards = Guards()  # of producers whose transactions are being verified
        self._refused = RefusedSequences()
        log.begin_epoch(leader_epoch)
        # At least what stands behind an open transaction: a marker shows it to waiting readers.
        self._unstable_bytes = 0 if self._first_unstable_offset is None else log.size_bytes
        self._scratch = scratch
        self._rules = rules_of(log.settings, scratch=scratch)
        self.followers = Followers(
            node_id,
            replicas=replicas,
            in_sync=in_sync,
            in_sync_min=log.settings.min_insync_replicas,
            epoch_start_offset=log.end_offset,
            recovering=recovering,
            now_ms=now_ms,
        )
        # Whether an append is committed when it returns: no follower and no sync is needed.
        self.commits_at_once = False
        self._in_sync_changed()

    @property
    def epoch_start_offset(self) -> Offset:
        """Where this leader epoch began. Until the high watermark has reached it, records of
        earlier epochs that were committed may be above the high watermark.
        """
        return self.followers.epoch_start_offset

    @property
    def is_recovering(self) -> bool:
        """Whether the controller is yet to hear that the log is recovered (`in_sync_change`)."""
        return self.followers.is_recovering

    @property
    def in_sync_count(self) -> int:
        return len(self.followers.in_sync)

    def check(self) -> None:
        super().check()
        self.followers.check()
        self.acks.check()
        self.leader_acks.check()
        assert not (self.has_ended and self.ack_observers)  # invariant 2
        if self._sync_records is not None:
            assert self.high_watermark <= self._vouched_offset  # invariant 5
        if self.has_ended:
            assert len(self.acks) == len(self.leader_acks) == 0  # invariant 6

    def check_leader_epoch(self, asked: int) -> ErrorCode:
        return check_leader_epoch(asked=asked, known=self.leader_epoch)

    def check_follower(
        self,
        node: NodeId,
        *,
        leader_epoch: int,
        broker_epoch: int,
        registered_epoch: int = NO_BROKER_EPOCH,
    ) -> ErrorCode:
        """Whether a node may fetch as a follower. `registered_epoch` is its broker epoch in the
        metadata: a fetch of another incarnation is refused (KIP-903). One that seems to be later
        than the registered one may not exist: if it counted, the fetches of the node itself would
        be those of an earlier one. The node repeats its fetch until the metadata are here.
        """
        code = self.check_leader_epoch(leader_epoch)
        if code is not ErrorCode.NONE:
            return code
        state = self.followers.get(node)
        if state is None:
            # With the leader epoch it says that metadata are behind, here or there.
            knows_epoch = leader_epoch != NO_LEADER_EPOCH
            return (
                ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        if registered_epoch not in (NO_BROKER_EPOCH, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if NO_BROKER_EPOCH != broker_epoch < state.broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def is_replica(self, node: NodeId) -> bool:
        """Whether another node is a follower of this partition."""
        return self.followers.get(node) is not None

    def low_watermark(self, is_live: Callable[[NodeId], bool]) -> Offset:
        """The least start of the log on living replicas; NO_OFFSET while one is unknown."""
        return self.followers.least_start(self.log.start_offset, is_live)

    def refuse_all_acks(self) -> Refusal | None:
        """Why a write with acks=all is refused now, if it is."""
        followers = self.followers
        if followers.are_enough:
            return None
        return refuse_too_few_in_sync(
            in_sync_count=len(followers.in_sync),
            replica_count=len(followers.replicas),
            in_sync_min=followers.in_sync_min,
        )

    def read_for_follower(
        self, offset: Offset, *, size_bytes_max: int, oversized_first: bool
    ) -> LogSlice | None:
        """Whole batches from `offset` on, up to the end of the log; None when there are none."""
        assert self.has_offset(offset), offset
        until_offset = self.log.end_offset
        if offset >= until_offset or (size_bytes_max <= 0 and not oversized_first):
            return None
        return self.log.read(
            ReadBounds(
                from_offset=offset,
                until_offset=until_offset,
                size_bytes_max=size_bytes_max,
                oversized_first=oversized_first,
                whole_batches=True,
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
                self._transactions_changed()
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

    def follower_fetched(
        self,
        node: NodeId,
        *,
        offset: int,
        broker_epoch: int = NO_BROKER_EPOCH,
        log_start_offset: int = NO_OFFSET,
        now_ms: int,
    ) -> bool:
        """A follower asks for `offset`: it has the log below it. Call this for fetches of the
        present leader epoch that `check_follower` allows and whose log does not diverge.

        Returns whether the in-sync set should change.
        """
        followers = self.followers
        state = followers.fetched(
            node,
            offset=Offset(offset),
            leader_end_offset=self.log.end_offset,
            broker_epoch=broker_epoch,
            log_start_offset=Offset(log_start_offset),
            now_ms=now_ms,
        )
        if state is None:
            return False
        self._advance()
        return followers.may_join(state, high_watermark=self.high_watermark)

    def follower_was_caught_up(self, node: NodeId, *, now_ms: int) -> None:
        """Until the last append the follower had everything, as of a fetch at this time. Fetches
        of a session do not name each partition that has nothing new.
        """
        state = self.followers.get(node)
        if state is not None:
            state.caught_up_ms = max(state.caught_up_ms, now_ms)

    def in_sync_change(
        self, *, now_ms: int, lag_ms_max: int, can_join: Callable[[NodeId, int], bool]
    ) -> InSyncChange | None:
        """What to ask of the controller now; None when there is nothing, or it is on its way.

        `can_join(node, broker_epoch)`: the node is registered with this broker epoch, is not fenced
        and not shutting down.
        """
        change = self.followers.propose(
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            leader_end_offset=self.log.end_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
            lag_ms_max=lag_ms_max,
            can_join=can_join,
        )
        self._in_sync_changed()
        return change

    def in_sync_confirmed(
        self,
        change: InSyncChange,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        in_sync: Iterable[NodeId],
        recovered: bool,
        now_ms: int,
    ) -> bool:
        """The controller's answer to a change; False when it tells nothing new.

        A smaller set counts once the metadata have it: the controller may have kept those that
        leave eligible by a `min.insync.replicas` that is still on its way here, in the metadata
        before the change. Until then they hold the high watermark.
        """
        in_sync = frozenset(in_sync)
        if (
            self.has_ended
            or self.followers.pending is not change
            or leader_epoch != self.leader_epoch
            or partition_epoch < self.partition_epoch
            or (partition_epoch > self.partition_epoch and not in_sync >= self.followers.in_sync)
        ):
            return False
        self.partition_epoch = partition_epoch
        self.followers.commit(
            replicas=self.followers.replicas,
            in_sync=in_sync,
            recovering=not recovered,
            now_ms=now_ms,
        )
        self._in_sync_changed()
        return True

    def in_sync_refused(self, change: InSyncChange, code: ErrorCode) -> bool:
        """The controller has not made the change, or nothing is known of it (REQUEST_TIMED_OUT).

        Returns whether it is to be asked for again, after a while: `in_sync_change` returns the
        same change then.
        """
        if self.has_ended or self.followers.pending is not change:
            return False
        again = self.followers.refused(code)
        self._in_sync_changed()
        return again

    def synced(self) -> None:
        """The log has been synced, up to its recovery point."""
        if self._sync_records is None:
            return
        if not self._advance():
            # A follower holds it back; observers that wait only for the leader can continue.
            for observer in (*self.observers, *self.ack_observers):
                observer.advanced(self, 0)

    def change_replicas(
        self,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: Iterable[NodeId],
        in_sync: Iterable[NodeId],
        recovering: bool = False,
        now_ms: int = 0,
    ) -> None:
        """The metadata has changed the replicas, or the epoch in which this broker leads. What is
        not newer than what is known is ignored.
        """
        assert leader_epoch >= self.leader_epoch, (leader_epoch, self.leader_epoch)
        is_new_epoch = leader_epoch != self.leader_epoch
        if not is_new_epoch and partition_epoch <= self.partition_epoch:
            return
        self.partition_epoch = partition_epoch
        followers = self.followers
        followers.commit(replicas=replicas, in_sync=in_sync, recovering=recovering, now_ms=now_ms)
        if is_new_epoch:
            # What a follower had reached under an older epoch it may have truncated since.
            followers.begin_epoch(epoch_start_offset=self.log.end_offset, now_ms=now_ms)
            self.leader_epoch = leader_epoch
            self.log.begin_epoch(leader_epoch)
            self.guards.clear_all()
            self._notify_end()
        self._in_sync_changed()

    def reconfigure(self, settings: TopicSettings) -> None:
        super().reconfigure(settings)
        self._rules = rules_of(settings, scratch=self._scratch)
        self.followers.require(settings.min_insync_replicas)
        self._in_sync_changed()

    def end(self, *, offline: bool = False) -> None:
        """This broker no longer leads the partition; its observers are notified."""
        self._refused.clear()
        self.guards.clear_all()
        super().end(offline=offline)
        code = ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.acks.release_all(code)
        self.leader_acks.release_all(code)

    def _may_write(self, guard: Guard, batch: BatchView) -> bool:
        id_, epoch = batch.producer_id, batch.producer_epoch
        return self.guards.holds(id_, guard) or self.in_transaction(id_, epoch=epoch)

    def _in_sync_changed(self) -> None:
        """The sets of followers or the settings have changed: the high watermark may move."""
        followers = self.followers
        are_enough = followers.are_enough
        self.commits_at_once = are_enough and not followers.counted and self._sync_records is None
        self._advance()
        if self._sync_records is None:
            self.leader_acks.release(self.log.end_offset, ErrorCode.NONE)
        self.acks.release(self.high_watermark, ErrorCode.NONE)
        if not are_enough:
            self.acks.release_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _advance(self) -> bool:
        """Whether the high watermark moved."""
        end_offset = self.log.end_offset
        if self.commits_at_once:
            reached = end_offset
        else:
            vouched_offset = self._vouch(end_offset)
            if self._sync_records is not None:
                self.leader_acks.release(vouched_offset, ErrorCode.NONE)
            followers = self.followers
            if not followers.are_enough:
                return False
            reached = advance_high_watermark(
                self.high_watermark,
                vouched_offset=vouched_offset,
                follower_ends=followers.counted_ends(),
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
        if not self.commits_at_once:
            self.acks.release(reached, ErrorCode.NONE)
        if self.observers or self.ack_observers:
            for observer in (*self.observers, *self.ack_observers):
                observer.advanced(self, byte_count)
        return True

    def _notify_end(self) -> None:
        ack_observers = tuple(self.ack_observers)
        self.ack_observers.clear()
        super()._notify_end()
        for observer in ack_observers:
            observer.ended(self)

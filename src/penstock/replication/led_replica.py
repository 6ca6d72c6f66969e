"""One replica that this node leads, as its followers see it: the in-sync set, the high watermark,
and the acks that wait for it.

What is appended, and for whom, is `replication/partition`, which is made of this. What the leader
knows of each follower, and which sets of them count, is in `replication/followers`.

What waits for an append (a long poll, an ack of all replicas) is an `Observer`; the shell creates
them, and without observers an append costs one more truth test. Observers that wait for an ack are
kept separately: an append that commits nothing does not concern them, and there may be many.

Invariants, besides those of `replication/replica`:
 4. The high watermark never goes back, and stands still while there are fewer in-sync replicas than
    `min.insync.replicas` asks for.
 5. Where acks wait for a sync, the offset up to which the leader's copy is safe never goes back,
    and the high watermark never passes it.
 6. After `end` no ack waits; and none that the high watermark has reached.
"""

from collections.abc import Callable, Iterable
from typing import Final

from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.replication.ack_queue import AckQueue
from penstock.replication.followers import NO_BROKER_EPOCH, Followers, InSyncChange
from penstock.replication.leader import Refusal, check_leader_epoch, refuse_too_few_in_sync
from penstock.replication.replica import Observer, Replica
from penstock.replication.rules import sync_records_of
from penstock.replication.visibility import advance_high_watermark

NO_NODE: Final = NodeId(-1)


class LedReplica(Replica):
    """See the module's invariants."""

    __slots__ = (
        "ack_observers",
        "acks",
        "commits_at_once",
        "followers",
        "leader_acks",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        node_id: NodeId,
        replicas: Iterable[NodeId],
        replica_count: int | None,
        in_sync: Iterable[NodeId],
        recovering: bool,
        high_watermark: Offset | None,
        uncommitted_ends: Iterable[tuple[Offset, Offset]] | None,
        now_ms: int,
    ) -> None:
        """`replicas` and `in_sync` are as in the metadata, with this node; without them it is the
        only replica. `replica_count`: how many may be asked to be in sync, if not all of them.
        `recovering`: it was elected without being in sync.
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
        log.begin_epoch(leader_epoch)
        self.followers = Followers(
            node_id,
            replicas=replicas,
            replica_count=replica_count,
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
            replica_count=followers.replica_count,
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
            leader_start_offset=self.log.start_offset,
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
        and not shutting down, and has the log directory of the replica.
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
            replica_count=self.followers.replica_count,
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
        replica_count: int | None = None,
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
        followers.commit(
            replicas=replicas,
            replica_count=replica_count,
            in_sync=in_sync,
            recovering=recovering,
            now_ms=now_ms,
        )
        if is_new_epoch:
            # What a follower had reached under an older epoch it may have truncated since.
            followers.begin_epoch(epoch_start_offset=self.log.end_offset, now_ms=now_ms)
            self.leader_epoch = leader_epoch
            self.log.begin_epoch(leader_epoch)
            self._notify_end()
        self._in_sync_changed()

    def reconfigure(self, settings: TopicSettings) -> None:
        super().reconfigure(settings)
        self.followers.require(settings.min_insync_replicas)
        self._in_sync_changed()

    def end(self, *, offline: bool = False) -> None:
        """This broker no longer leads the partition; its observers are notified."""
        super().end(offline=offline)
        code = ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.acks.release_all(code)
        self.leader_acks.release_all(code)

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

"""What a leader knows of its followers in one leader epoch, and which of them are in sync.

    committed set     the in-sync replicas that the controller has confirmed
    maximal set       the committed set, and what a change on its way would add
    counted           the maximal set, and followers that are about to join: the high watermark is
                      the least end among them

A shrink counts once the controller has confirmed it, a growth from the moment it is asked for:
whichever set the controller has stored, each of its members has everything below the high
watermark. The committed set decides whether there are enough replicas (`min.insync.replicas`, or
all replicas where there are fewer; while they change, before or after, whichever are fewer).

A follower joins when it has reached the high watermark and the start of the leader epoch. If it
ends where the leader's log begins, the leader has nothing to compare its records with, and they may
be those of a deposed leader: it joins once it has dropped them. Under a steady load it would always
be one fetch behind; so the high watermark waits for a follower that reaches, with each fetch, the
end that the log had at its fetch before.

Invariants:
 1. The leader is in the committed set and in every change; both contain assigned replicas only.
 2. At most one change is on its way, for the present partition epoch.
 3. No end is known that a follower had reached under another leader epoch, or before its present
    broker epoch (KIP-903).
"""

from collections.abc import Callable, Iterable
from typing import Final

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_OFFSET, LeaderEpoch, Offset

NO_BROKER_EPOCH: Final = -1
NEVER_MS: Final = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncChange:
    """What to ask of the controller. It also says that the leader's log is recovered."""

    leader_epoch: LeaderEpoch
    partition_epoch: int
    # With the broker epoch of each follower's last fetch; NO_BROKER_EPOCH for those that have not
    # fetched in this leader epoch, and for the leader itself.
    members: tuple[tuple[NodeId, int], ...]


class FollowerState:
    """One follower, as of its last fetch in this leader epoch."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "is_awaited",
        "is_comparable",
        "keeps_up",
        "leader_end_offset",
        "log_start_offset",
        "node",
    )

    def __init__(self, node: NodeId, *, caught_up_ms: int) -> None:
        self.node = node
        self.caught_up_ms = caught_up_ms
        self.forget()

    def forget(self) -> None:
        """Nothing is known of its log."""
        self.end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.fetched_ms = NEVER_MS
        self.leader_end_offset = NO_OFFSET  # the leader's, as of that fetch
        self.is_comparable = False  # its records, if any, are known not to differ from the leader's
        self.keeps_up = False  # it had then what the leader had at the fetch before
        self.is_awaited = False  # the high watermark waits for it, although it is not in sync

    def fetched(
        self,
        *,
        offset: Offset,
        leader_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        log_start_offset: Offset,
        now_ms: int,
    ) -> None:
        if broker_epoch != self.broker_epoch and self.broker_epoch != NO_BROKER_EPOCH:
            self.forget()  # invariant 3
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.leader_end_offset != NO_OFFSET and offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.keeps_up = offset >= leader_end_offset or (
            self.leader_end_offset != NO_OFFSET and offset >= self.leader_end_offset
        )
        self.is_comparable = offset > leader_start_offset or log_start_offset in (
            NO_OFFSET,
            offset,
        )
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_offset = leader_end_offset

    def is_lagging(self, *, leader_end_offset: Offset, now_ms: int, lag_ms_max: int) -> bool:
        return self.end_offset != leader_end_offset and now_ms - self.caught_up_ms > lag_ms_max


class Followers:
    """See the module's invariants."""

    __slots__ = (
        "_by_node",
        "_change",
        "_counted",
        "_is_sent",
        "are_enough",
        "epoch_start_offset",
        "in_sync",
        "in_sync_min",
        "is_recovering",
        "node_id",
        "replica_count",
        "replicas",
    )

    def __init__(
        self,
        node_id: NodeId,
        *,
        replicas: Iterable[NodeId],
        replica_count: int | None = None,
        in_sync: Iterable[NodeId],
        in_sync_min: int,
        epoch_start_offset: Offset,
        recovering: bool,
        now_ms: int,
    ) -> None:
        self.node_id = node_id
        self.in_sync_min = in_sync_min  # as the topic's settings have it
        self.are_enough = False  # in sync, for acks of all and for the high watermark
        self.replicas: tuple[NodeId, ...] = ()
        self.replica_count = 1  # how many could be asked to be in sync
        self.in_sync: frozenset[NodeId] = frozenset((node_id,))  # the committed set
        self._by_node: dict[NodeId, FollowerState] = {}
        self._counted: tuple[FollowerState, ...] = ()
        self._change: InSyncChange | None = None
        self._is_sent = False  # the change is on its way, and not to be sent again
        self.is_recovering = recovering
        self.epoch_start_offset = epoch_start_offset
        self.commit(
            replicas=replicas,
            replica_count=replica_count,
            in_sync=in_sync,
            recovering=recovering,
            now_ms=now_ms,
        )

    @property
    def counted(self) -> tuple[FollowerState, ...]:
        return self._counted

    @property
    def pending(self) -> InSyncChange | None:
        return self._change

    def get(self, node: NodeId) -> FollowerState | None:
        return self._by_node.get(node)

    def counts(self, node: NodeId) -> bool:
        """Whether the high watermark waits for this follower."""
        state = self._by_node.get(node)
        return state is not None and state in self._counted

    def counted_ends(self) -> list[Offset]:
        """The ends of the counted followers; NO_OFFSET while one is unknown."""
        return [state.end_offset for state in self._counted]

    def least_start(self, own: Offset, is_live: Callable[[NodeId], bool]) -> Offset:
        """The least log start of living followers and of `own`; NO_OFFSET while one is unknown."""
        for state in self._by_node.values():
            if is_live(state.node):
                own = min(own, state.log_start_offset)
        return own

    def can_be_added(self, state: FollowerState, *, high_watermark: Offset) -> bool:
        """Whether the follower has everything that an in-sync replica must have."""
        return (
            state.end_offset >= high_watermark
            and state.end_offset >= self.epoch_start_offset
            and state.is_comparable
        )

    def require(self, in_sync_min: int) -> None:
        """The setting `min.insync.replicas` has changed."""
        self.in_sync_min = in_sync_min
        self._recount()

    def begin_epoch(self, *, epoch_start_offset: Offset, now_ms: int) -> None:
        """A new leader epoch begins with no end known; in-sync followers have time to fetch."""
        self.epoch_start_offset = epoch_start_offset
        for state in self._by_node.values():
            state.forget()
            state.caught_up_ms = now_ms if state.node in self.in_sync else NEVER_MS
        self._recount()

    def commit(
        self,
        *,
        replicas: Iterable[NodeId],
        replica_count: int | None = None,
        in_sync: Iterable[NodeId],
        recovering: bool,
        now_ms: int,
    ) -> None:
        """The controller has stored this; a change on its way was for an older partition epoch."""
        self.replicas = tuple(replicas) or (self.node_id,)
        self.replica_count = len(self.replicas) if replica_count is None else replica_count
        before, self.in_sync = self.in_sync, frozenset((self.node_id, *in_sync))
        self.is_recovering = recovering
        self._change = None
        known = self._by_node
        self._by_node = {}
        for node in self.replicas:
            if node != self.node_id:
                state = known.get(node) or FollowerState(node, caught_up_ms=NEVER_MS)
                if node in self.in_sync and node not in before:
                    state.caught_up_ms = max(state.caught_up_ms, now_ms)
                self._by_node[node] = state
        self._recount()

    def fetched(
        self,
        node: NodeId,
        *,
        offset: Offset,
        leader_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        log_start_offset: Offset,
        now_ms: int,
    ) -> FollowerState | None:
        """Notes a fetch; None when it tells nothing: of no replica, or of an older broker epoch."""
        state = self._by_node.get(node)
        if state is None or broker_epoch < state.broker_epoch or offset > leader_end_offset:
            return None
        was_awaited = state.is_awaited
        state.fetched(
            offset=offset,
            leader_start_offset=leader_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
        )
        if was_awaited and not (state.is_awaited and state.keeps_up):
            state.is_awaited = False
            self._recount()
        return state

    def may_join(self, state: FollowerState, *, high_watermark: Offset) -> bool:
        """Whether `propose` may have something to do for this follower."""
        if state.node in self.in_sync or self._change is not None:
            return False
        return self.can_be_added(state, high_watermark=high_watermark) or (
            state.keeps_up and not state.is_awaited
        )

    def propose(
        self,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        leader_end_offset: Offset,
        high_watermark: Offset,
        now_ms: int,
        lag_ms_max: int,
        can_join: Callable[[NodeId, int], bool],
    ) -> InSyncChange | None:
        """The change to ask the controller for now, or to ask for again."""
        if self._change is not None:
            if self._is_sent:
                return None
            self._is_sent = True
            return self._change
        members = {self.node_id}
        awaited_before = [state.is_awaited for state in self._by_node.values()]
        for node, state in self._by_node.items():
            state.is_awaited = False
            if node in self.in_sync:
                if not state.is_lagging(
                    leader_end_offset=leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max
                ):
                    members.add(node)
            elif (
                state.end_offset != NO_OFFSET
                and not self.is_recovering
                and can_join(node, state.broker_epoch)
            ):
                if self.can_be_added(state, high_watermark=high_watermark):
                    members.add(node)
                else:
                    state.is_awaited = state.keeps_up and now_ms - state.fetched_ms <= lag_ms_max
        if self.is_recovering:
            members = set(self.in_sync)
        if members != self.in_sync or self.is_recovering:
            self._change = InSyncChange(
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                members=tuple(
                    (node, self._broker_epoch(node)) for node in self.replicas if node in members
                ),
            )
            self._is_sent = True
            self._recount()
        elif awaited_before != [state.is_awaited for state in self._by_node.values()]:
            self._recount()
        return self._change

    def refused(self, code: ErrorCode) -> bool:
        """The controller has not made the change; whether it is to be asked for again.

        It is given up only when it is certain that it was not made. Otherwise it stays counted
        until the metadata, which are on their way, tell what the set is.
        """
        if code in NOT_MADE:
            self._change = None
            self._recount()
            return False
        if code in METADATA_WILL_TELL:
            return False
        self._is_sent = False
        return True

    def check(self) -> None:
        assert self.node_id in self.in_sync  # invariant 1
        if self._change is not None:
            members = {node for node, _ in self._change.members}
            assert self.node_id in members  # invariant 1
            assert members <= set(self.replicas)  # invariant 1
        for state in self._by_node.values():
            counted = self._is_counted(state)
            assert counted == any(one is state for one in self._counted)

    def _broker_epoch(self, node: NodeId) -> int:
        state = self._by_node.get(node)
        return NO_BROKER_EPOCH if state is None else state.broker_epoch

    def _is_counted(self, state: FollowerState) -> bool:
        return (
            state.is_awaited
            or state.node in self.in_sync
            or (
                self._change is not None
                and any(node == state.node for node, _ in self._change.members)
            )
        )

    def _recount(self) -> None:
        self.are_enough = len(self.in_sync) >= min(self.in_sync_min, self.replica_count)
        self._counted = tuple(state for state in self._by_node.values() if self._is_counted(state))


# The controller says that it has not made the change, and would not make it as it is.
NOT_MADE: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# The change was for a state of the partition that is past: the metadata will tell the present one.
METADATA_WILL_TELL: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

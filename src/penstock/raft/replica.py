"""One replica of the metadata log: a voter, or an observer. Start here.

It is pure: requests, replies, failures and the time come in, effects go out, in the order in which
they are to be carried out (`effects`). Whoever drives it calls one method, carries the effects out,
and calls the next; no two calls run at once.

    start, receive, receive_reply, failed, leader_refused, tick, appended, synced, ... -> effects
"""

from collections.abc import Sequence
from typing import assert_never

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.effects import Effect, HardState, Sync
from penstock.raft.elections import (
    addressed_to,
    ask_for_votes,
    handle_vote,
    handle_vote_reply,
    has_no_answer,
    is_plausible,
    is_stranger,
    stand,
)
from penstock.raft.following import (
    fetch_next,
    give_up,
    handle_fetch_reply,
    handle_leader_unknown,
    handle_snapshot_reply,
    look_for_leader,
    lose_leader,
)
from penstock.raft.leading import (
    expire_fetches,
    handle_fetch,
    handle_fetch_snapshot,
    handle_reminded,
    own_log_grew,
    own_log_synced,
    remind_voters,
    resign_if_left,
    say_farewell,
)
from penstock.raft.log_ends import LogEnds
from penstock.raft.messages import (
    BeginEpochReply,
    BeginEpochRequest,
    EndEpochReply,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
    Reply,
    Request,
    VoteReply,
    VoteRequest,
)
from penstock.raft.replies import answer, refuse
from penstock.raft.roles.candidate import Candidate
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.prospective import Prospective
from penstock.raft.roles.resigned import Resigned
from penstock.raft.roles.unattached import Unattached
from penstock.raft.state import ReplicaState
from penstock.raft.times import Draw, Times, backoff_ms, election_wait_ms
from penstock.raft.transitions import (
    become_follower,
    become_observer,
    become_resigned,
    learn,
    look_around,
    lose_election,
)
from penstock.raft.voter_changes import (
    ChangeRefused,
    VoterChange,
    add_voter,
    remove_voter,
    update_voter,
    upgrade_voters,
)
from penstock.raft.voter_history import VoterHistory, VotersAt
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterSet


class Replica:
    """`take_effects` after each call, and carry them out before the next one."""

    def __init__(
        self,
        *,
        key: ReplicaKey,
        voters: VoterSet,
        times: Times,
        draw: Draw,
        hard: HardState,
        log: LogEnds,
        stored_voters: Sequence[VotersAt] = (),
        bootstrap: tuple[NodeId, ...] = (),
    ) -> None:
        """`voters` are those of the settings, or of formatting; `stored_voters` those that the
        newest snapshot and the log name, in their order. `bootstrap` are more nodes to be asked
        for the leader.
        """
        voter_sets = VoterHistory(voters)
        for stored in stored_voters:
            voter_sets.append(stored)
        self.state = ReplicaState(
            key=key,
            voter_sets=voter_sets,
            bootstrap=bootstrap,
            times=times,
            draw=draw,
            hard=hard,
            log=log,
        )

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.epoch

    @property
    def leader_id(self) -> NodeId | None:
        return self.state.known_leader

    @property
    def leads(self) -> bool:
        return isinstance(self.state.role, Leader)

    @property
    def high_watermark(self) -> Offset:
        return self.state.high_watermark

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.state.voters

    def voters_before(self, offset: Offset) -> VotersAt:
        """The voters that a snapshot of the records below `offset` names."""
        return self.state.voter_sets.before(offset)

    @property
    def synced_offset(self) -> Offset:
        return self.state.log.synced_offset

    def take_effects(self) -> list[Effect]:
        effects = self.state.effects
        self.state.effects = []
        return effects

    def start(self, now_ms: int) -> None:
        """Once, first. A leader that comes back has resigned: others may have acted since."""
        state = self.state
        if state.epoch < state.log.last.epoch:  # as Kafka does where `quorum-state` is older
            state.epoch, state.leader_id, state.voted = state.log.last.epoch, None, None
            state.persist()
        alone = state.is_voter and state.voters.majority == 1
        elect_ms: int | None = None
        if state.may_stand:
            elect_ms = now_ms if alone else now_ms + election_wait_ms(state.times, state.draw)
        if state.leader_id == state.key.node_id and state.may_stand:
            others = state.other_voters
            state.role = Resigned(
                elect_ms=elect_ms,
                successors=others,
                remind_ms={voter.node_id: now_ms for voter in others},
            )
        else:
            state.role = Unattached(leader_id=state.leader_id, elect_ms=elect_ms)
        if not state.log.is_synced:
            state.effects.append(Sync())
        self.tick(now_ms)

    def receive(self, request: Request, token: object, now_ms: int) -> None:
        """A request of another replica; its answer is an effect that carries the token."""
        resign_if_left(self.state, now_ms)
        match request:
            case FetchRequest():
                handle_fetch(self.state, request, token, now_ms)
            case VoteRequest():
                handle_vote(self.state, request, token, now_ms)
            case BeginEpochRequest():
                self._begin_epoch(request, token, now_ms)
            case EndEpochRequest():
                self._end_epoch(request, token, now_ms)
            case FetchSnapshotRequest():
                handle_fetch_snapshot(self.state, request, token, now_ms)
            case _:
                assert_never(request)
        self.tick(now_ms)

    def receive_reply(self, sender: NodeId, number: int, reply: Reply, now_ms: int) -> None:
        """The reply to the request with this number."""
        resign_if_left(self.state, now_ms)
        if not self._is_hearsay(sender, reply) and learn(
            self.state, reply.epoch, reply.leader_id, now_ms
        ):
            return self.tick(now_ms)
        match reply:
            case FetchReply():
                if isinstance(self.state.role, Unattached):
                    handle_leader_unknown(self.state, sender, number, reply, now_ms)
                else:
                    handle_fetch_reply(self.state, number, reply, now_ms)
            case VoteReply():
                handle_vote_reply(self.state, sender, number, reply, now_ms)
            case BeginEpochReply() | EndEpochReply():
                handle_reminded(self.state, sender, number, done=True, now_ms=now_ms)
            case FetchSnapshotReply():
                handle_snapshot_reply(self.state, number, reply, now_ms)
            case _:
                assert_never(reply)
        return self.tick(now_ms)

    def awaits(self, number: int, reply: FetchSnapshotReply) -> bool:
        """Whether this part of a snapshot is the one that was asked for last."""
        role = self.state.role
        return (
            isinstance(role, Follower)
            and role.fetching == number
            and role.snapshot == reply.snapshot
            and role.position == reply.position
        )

    def failed(self, to: NodeId, number: int, now_ms: int) -> None:
        """A request got no reply: it could not be sent, or its time is over."""
        resign_if_left(self.state, now_ms)
        role = self.state.role
        retry_ms = now_ms + self.state.times.retry_backoff_ms
        match role:
            case Follower():
                if role.fetching == number:
                    role.fetching = None
                    role.fetch_ms = retry_ms
            case Unattached() | Prospective() | Candidate():
                if role.asked.get(to) == number:
                    del role.asked[to]
                    role.ask_ms[to] = retry_ms
            case Leader() | Resigned():
                handle_reminded(self.state, to, number, done=False, now_ms=now_ms)
            case _:
                assert_never(role)
        self.tick(now_ms)

    def leader_refused(self, node_id: NodeId, now_ms: int) -> None:
        """The connection to a node broke and a new one was refused: its process has ended."""
        resign_if_left(self.state, now_ms)
        role = self.state.role
        if isinstance(role, Follower) and role.leader_id == node_id:
            lose_leader(self.state, role, now_ms)
        self.tick(now_ms)

    def appended(self, end_offset: Offset) -> None:
        """The leader's own records were appended to the log, in its epoch."""
        assert isinstance(self.state.role, Leader)
        self.state.log.append(self.state.epoch, end_offset)
        self.state.effects.append(Sync())
        own_log_grew(self.state)

    def begin_sync(self) -> None:
        """A sync of the whole log begins; `synced` ends it. One runs at a time."""
        self.state.log.begin_sync()

    def synced(self, now_ms: int) -> None:
        """What was in the log when the sync began is durable."""
        self.state.log.end_sync()
        resign_if_left(self.state, now_ms)
        own_log_synced(self.state, now_ms)
        self.tick(now_ms)

    def made_snapshot(self, snapshot: SnapshotId) -> None:
        """A snapshot of committed records is on disk."""
        assert snapshot.offset <= self.state.high_watermark
        self.state.log.made_snapshot(snapshot)

    def trim(self, offset: Offset) -> None:
        """The log was deleted below `offset`, which a snapshot holds."""
        self.state.log.trim(offset)
        self.state.voter_sets.trim(offset)

    def add_voter(
        self, key: ReplicaKey, details: VoterDetails, now_ms: int
    ) -> VoterChange | ChangeRefused:
        """An observer is to vote; see `voter_changes` for this and the next ones."""
        resign_if_left(self.state, now_ms)
        return add_voter(self.state, key, details, now_ms)

    def remove_voter(self, key: ReplicaKey, now_ms: int) -> VoterChange | ChangeRefused:
        resign_if_left(self.state, now_ms)
        return remove_voter(self.state, key, now_ms)

    def update_voter(
        self, key: ReplicaKey, details: VoterDetails, now_ms: int
    ) -> VoterChange | ChangeRefused:
        resign_if_left(self.state, now_ms)
        return update_voter(self.state, key, details, now_ms)

    def upgrade_voters(
        self, own: VoterDetails, now_ms: int, *, try_only: bool = False
    ) -> VoterChange | ChangeRefused:
        resign_if_left(self.state, now_ms)
        return upgrade_voters(self.state, own, now_ms, try_only=try_only)

    def resign(self, now_ms: int, *, for_good: bool) -> None:
        """Leads no more, if it does: for good when the node shuts down."""
        if isinstance(self.state.role, Leader):
            become_resigned(self.state, now_ms, for_good=for_good)
        self.tick(now_ms)

    def tick(self, now_ms: int) -> None:
        """Does what is due; `next_deadline_ms` says when to call it again."""
        state = self.state
        resign_if_left(state, now_ms)
        before = None
        while before is not state.role:  # a role that was entered just now has things to do, too
            before = state.role
            self._do_due(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When the next `tick` is due; None when only a message can change anything."""
        state = self.state
        role = state.role
        match role:
            case Follower():
                if role.fetching is None and state.log.is_synced:
                    return min(role.fetch_ms, role.deadline_ms)
                return role.deadline_ms
            case Unattached():
                if not state.log.is_synced:
                    return role.elect_ms
                asks = [ms for node, ms in role.ask_ms.items() if node not in role.asked]
                return _least(asks, role.elect_ms)
            case Prospective() | Candidate():
                asks = [ms for node, ms in role.ask_ms.items() if has_no_answer(role, node)]
                return _least(asks, role.deadline_ms)
            case Leader():
                due = [one.deadline_ms for one in role.waiting]
                due += [ms for node, ms in role.remind_ms.items() if node not in role.reminded]
                return _least(due, role.quorum_until_ms(state.times.check_quorum_ms))
            case Resigned():
                due = [ms for node, ms in role.remind_ms.items() if node not in role.reminded]
                return _least(due, role.elect_ms)
            case _:
                assert_never(role)

    def check(self) -> None:
        self.state.check()

    def _do_due(self, now_ms: int) -> None:
        state = self.state
        role = state.role
        match role:
            case Follower():
                if now_ms < role.deadline_ms:
                    return fetch_next(state, now_ms)
                if state.may_stand:
                    return stand(state, now_ms)
                return look_around(state, role.leader_id)
            case Unattached():
                if role.elect_ms is not None and now_ms >= role.elect_ms:
                    return stand(state, now_ms)
                return look_for_leader(state, now_ms)
            case Prospective() | Candidate():
                if now_ms >= role.deadline_ms:
                    return lose_election(state, now_ms)
                return ask_for_votes(state, now_ms)
            case Leader():
                expire_fetches(state, role, now_ms)
                return remind_voters(state, role, now_ms)
            case Resigned():
                if role.elect_ms is not None and now_ms >= role.elect_ms:
                    if state.may_stand:
                        return stand(state, now_ms)
                    return become_observer(state)
                return say_farewell(state, role, now_ms)
            case _:
                assert_never(role)

    def _is_hearsay(self, sender: NodeId, reply: Reply) -> bool:
        """Whether another voter names the leader that this observer has just given up."""
        role = self.state.role
        if not isinstance(role, Unattached) or role.lost_leader_id is None:
            return False
        names_lost = reply.epoch == self.state.epoch and reply.leader_id == role.lost_leader_id
        return names_lost and sender != reply.leader_id

    def _begin_epoch(self, request: BeginEpochRequest, token: object, now_ms: int) -> None:
        state = self.state
        if not addressed_to(state, request.voter):
            return refuse(state, token, request, Refused.INVALID_VOTER_KEY)
        if request.epoch < state.epoch:
            return refuse(state, token, request, Refused.FENCED_LEADER_EPOCH)
        if self._contradicts(request):
            return refuse(state, token, request, Refused.INVALID_REQUEST)
        if is_stranger(state, request.leader_id):
            return refuse(state, token, request, Refused.INCONSISTENT_VOTER_SET)
        if not learn(state, request.epoch, request.leader_id, now_ms):
            role = state.role
            if isinstance(role, Prospective):  # it had been given up too early
                become_follower(state, request.epoch, request.leader_id, now_ms)
        return answer(
            state, token, BeginEpochReply(epoch=state.epoch, leader_id=state.known_leader)
        )

    def _end_epoch(self, request: EndEpochRequest, token: object, now_ms: int) -> None:
        state = self.state
        if request.epoch < state.epoch:
            return refuse(state, token, request, Refused.FENCED_LEADER_EPOCH)
        if self._contradicts(request):
            return refuse(state, token, request, Refused.INVALID_REQUEST)
        if is_stranger(state, request.leader_id):
            return refuse(state, token, request, Refused.INCONSISTENT_VOTER_SET)
        learn(state, request.epoch, request.leader_id, now_ms)
        role = state.role
        if isinstance(role, Follower) and role.leader_id == request.leader_id:
            state.hurry = False
            give_up(role, at_ms=now_ms + self._succession_wait_ms(request))
        return answer(state, token, EndEpochReply(epoch=state.epoch, leader_id=state.known_leader))

    def _contradicts(self, request: BeginEpochRequest | EndEpochRequest) -> bool:
        """Whether it names another leader of this epoch than is known, or this replica itself, or
        what no replica can mean.
        """
        state = self.state
        if request.leader_id == state.key.node_id:
            return True
        if not is_plausible(state, request.leader_id, request.epoch):
            return True
        known = state.leader_id is not None and request.epoch == state.epoch
        return known and request.leader_id != state.leader_id

    def _succession_wait_ms(self, request: EndEpochRequest) -> int:
        """The first successor stands at once, the others later, so that they do not compete."""
        state = self.state
        for place, successor in enumerate(request.successors):
            if successor.node_id == state.key.node_id:
                if place == 0:
                    return 0
                return state.times.election_timeout_ms // 2 + backoff_ms(
                    state.times, state.draw, attempts=place
                )
        return election_wait_ms(state.times, state.draw)


def _least(times_ms: list[int], another_ms: int | None) -> int | None:
    if another_ms is not None:
        return min(min(times_ms), another_ms) if times_ms else another_ms
    return min(times_ms) if times_ms else None

"""Votes: who may have this replica's, and how it gathers those of others.

Standing for election takes two rounds. The first asks who would vote (KIP-996); a replica that
still hears from the leader would not, so one that is merely cut off disturbs nobody.
"""

from penstock.model.identity import NodeId
from penstock.model.limit import EPOCHS_AHEAD_MAX
from penstock.model.offset import LeaderEpoch
from penstock.raft.messages import Refused, VoteReply, VoteRequest
from penstock.raft.replies import answer_vote
from penstock.raft.roles.candidate import Candidate
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.prospective import Prospective
from penstock.raft.roles.resigned import Resigned
from penstock.raft.roles.unattached import Unattached
from penstock.raft.state import ReplicaState
from penstock.raft.transitions import (
    become_candidate,
    become_leader,
    become_prospective,
    become_unattached,
    become_voted,
    lose_election,
    stand_back,
)
from penstock.raft.voters import ReplicaKey

# Refusals that another attempt does not change.
NO_VOTER = frozenset({Refused.INVALID_VOTER_KEY, Refused.INCONSISTENT_VOTER_SET})


def stand(state: ReplicaState, now_ms: int) -> None:
    """Stands for election: asks first, unless it is a majority alone."""
    become_prospective(state, now_ms)
    _count(state, now_ms)


def handle_vote(state: ReplicaState, request: VoteRequest, token: object, now_ms: int) -> None:
    error = _vote_error(state, request)
    if error is not None:
        return answer_vote(state, token, granted=False, error=error)
    if request.epoch > state.epoch:
        become_unattached(state, request.epoch, now_ms)
    if request.pre_vote:
        granted = _would_vote(state, request, now_ms)
        answer_vote(state, token, granted=granted)
        if granted:
            _give_way(state, request, now_ms)
        return None
    granted = _may_vote(state, request)
    if granted and state.voted is None:
        become_voted(state, request.candidate, now_ms)
    return answer_vote(state, token, granted=granted)


def handle_vote_reply(
    state: ReplicaState, voter: NodeId, number: int, reply: VoteReply, now_ms: int
) -> None:
    role = state.role
    if not isinstance(role, Prospective | Candidate) or role.asked.get(voter) != number:
        return  # of an election that is over
    del role.asked[voter]
    unanswered = reply.error is not None and reply.error not in NO_VOTER
    if unanswered or reply.epoch != state.epoch:
        role.ask_ms[voter] = now_ms + state.times.retry_backoff_ms
        return
    (role.granted if reply.granted else role.refused).add(voter)
    _count(state, now_ms)


def ask_for_votes(state: ReplicaState, now_ms: int) -> None:
    """Asks each voter that has not answered, as soon as it may be asked again."""
    role = state.role
    assert isinstance(role, Prospective | Candidate), role
    for voter in state.other_voters:
        node = voter.node_id
        if has_no_answer(role, node) and role.ask_ms.get(node, now_ms) <= now_ms:
            role.asked[node] = state.send(node, _request(state, voter))


def has_no_answer(role: Prospective | Candidate, node: NodeId) -> bool:
    """Whether a voter is still to be asked: it has not decided, and is not being asked."""
    return node not in role.asked and node not in role.granted and node not in role.refused


def _request(state: ReplicaState, voter: ReplicaKey) -> VoteRequest:
    return VoteRequest(
        epoch=state.epoch,
        candidate=state.key,
        voter=voter,
        log_end=state.log.last,
        pre_vote=isinstance(state.role, Prospective),
    )


def _count(state: ReplicaState, now_ms: int) -> None:
    role = state.role
    if isinstance(role, Prospective):
        if len(role.granted) >= state.voters.majority:
            become_candidate(state, now_ms)
            _count(state, now_ms)
        elif len(role.refused) > len(state.voters.keys) - state.voters.majority:
            lose_election(state, now_ms)
    elif isinstance(role, Candidate):
        if len(role.granted) >= state.voters.majority:
            become_leader(state, role.granted, now_ms)
        elif len(role.refused) > len(state.voters.keys) - state.voters.majority:
            lose_election(state, now_ms)


def _vote_error(state: ReplicaState, request: VoteRequest) -> Refused | None:
    if not addressed_to(state, request.voter):
        return Refused.INVALID_VOTER_KEY
    last_epoch_max = request.epoch if request.pre_vote else request.epoch - 1
    if request.log_end.epoch > last_epoch_max or min(request.log_end) < 0:
        return Refused.INVALID_REQUEST
    if request.epoch < state.epoch:
        return Refused.FENCED_LEADER_EPOCH
    if not is_plausible(state, request.candidate.node_id, request.epoch):
        return Refused.INVALID_REQUEST
    if is_stranger(state, request.candidate.node_id):
        return Refused.INCONSISTENT_VOTER_SET
    return None


def is_plausible(state: ReplicaState, sender: NodeId, epoch: LeaderEpoch) -> bool:
    """Whether a replica may have sent this. An epoch that is far ahead is not believed: epochs are
    never taken back, and after the last one nobody could be elected any more. A replica that has
    missed so many elections learns of them from the replies to its own requests.
    """
    return sender >= 0 and epoch <= state.epoch + EPOCHS_AHEAD_MAX


def is_stranger(state: ReplicaState, sender: NodeId) -> bool:
    """Whether a node that stands or leads is no voter by the fixed voters of this one: the settings
    of one of them are wrong. Where voters are in the log, the sender may know of a later change.
    """
    return state.voters.is_fixed and sender not in state.voters.keys


def addressed_to(state: ReplicaState, voter: ReplicaKey) -> bool:
    """Whether a request is meant for this replica. A voter that lost its disk is another one: it
    may have voted, and has forgotten it.
    """
    if voter.node_id != state.key.node_id:
        return False
    return voter.directory_id is None or voter.directory_id == state.key.directory_id


def _is_same(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    """With kraft.version 0, `quorum-state` keeps a vote without the directory id."""
    if voted.node_id != candidate.node_id:
        return False
    return voted.directory_id is None or voted.directory_id == candidate.directory_id


def _would_vote(state: ReplicaState, request: VoteRequest, now_ms: int) -> bool:
    """The answer to a pre-vote."""
    role = state.role
    if isinstance(role, Leader):
        return False
    if isinstance(role, Follower) and role.hears(
        now_ms, fetch_timeout_ms=state.times.fetch_timeout_ms
    ):
        return False
    return request.log_end >= state.log.last


def _give_way(state: ReplicaState, request: VoteRequest, now_ms: int) -> None:
    """Voters that lose their leader notice it at the same time. Two that grant each other a
    pre-vote would both become candidates, each with its own vote, and wait for a whole election
    time-out. So of two that stand, the one with the longer log goes on, or else the one with the
    smaller id; and one that is about to stand waits, once, for the one that it would vote for.
    """
    role = state.role
    until_ms = now_ms + state.times.give_way_ms
    if isinstance(role, Prospective):
        ahead = request.log_end > state.log.last
        if ahead or request.candidate.node_id < state.key.node_id:
            stand_back(state, until_ms)
    elif isinstance(role, Follower):
        if state.may_stand and not role.gave_way:
            role.gave_way = True
            role.deadline_ms = max(role.deadline_ms, until_ms)
    elif isinstance(role, Unattached) and role.elect_ms is not None and not role.gave_way:
        role.gave_way = True
        role.elect_ms = max(role.elect_ms, until_ms)


def _may_vote(state: ReplicaState, request: VoteRequest) -> bool:
    """One vote an epoch, for a log that is not behind this one (KIP-595)."""
    role = state.role
    if isinstance(role, Leader | Follower | Candidate | Resigned):
        return False
    assert isinstance(role, Unattached | Prospective)
    if state.voted is not None:
        return _is_same(state.voted, request.candidate)
    if state.leader_id is not None:
        return False
    return request.log_end >= state.log.last

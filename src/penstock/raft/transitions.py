"""From role to role. What binds a replica after a crash is persisted here, before it is acted on.

unattached --election due--> prospective --majority would vote--> candidate --majority--> leader
    ^  ^                        |   ^                                |                      |
    |  +-----lost, no leader----+   |                                |       lost quorum, shut down
    |                               +-leader lost- follower          v                      v
    +------------------ a later epoch is heard of, from any role ----+------------------ resigned
"""

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import AppendLeaderChange, Became, Committed, Sync
from penstock.raft.messages import Refused
from penstock.raft.replies import refuse_fetch
from penstock.raft.roles.candidate import Candidate
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.prospective import Prospective
from penstock.raft.roles.resigned import Resigned
from penstock.raft.roles.unattached import Unattached
from penstock.raft.state import ReplicaState, Role
from penstock.raft.times import backoff_ms, election_wait_ms
from penstock.raft.voter_history import NOT_IN_LOG, VotersAt
from penstock.raft.voters import ReplicaKey


def become_unattached(
    state: ReplicaState, epoch: LeaderEpoch, now_ms: int, *, leader_id: NodeId | None = None
) -> None:
    """A later epoch is known, and nothing of its leader but perhaps the id."""
    assert epoch > state.epoch, (epoch, state.epoch)
    state.epoch, state.leader_id, state.voted = epoch, leader_id, None
    state.persist()
    elect_ms = _elect_ms_kept(state.role)
    if elect_ms is None or not state.may_stand:
        elect_ms = _next_election_ms(state, now_ms)
    _enter(state, Unattached(leader_id=leader_id, elect_ms=elect_ms))


def become_voted(state: ReplicaState, candidate: ReplicaKey, now_ms: int) -> None:
    """Votes in the current epoch. The candidate has as good a chance as this replica: it waits."""
    assert state.voted is None and state.leader_id is None, (state.voted, state.leader_id)
    state.voted = candidate
    state.persist()
    state.hurry = False
    _enter(state, Unattached(leader_id=None, elect_ms=_next_election_ms(state, now_ms)))


def become_follower(
    state: ReplicaState, epoch: LeaderEpoch, leader_id: NodeId, now_ms: int
) -> None:
    assert epoch >= state.epoch, (epoch, state.epoch)
    assert leader_id != state.key.node_id, "nobody follows itself"
    if epoch > state.epoch:
        state.voted = None
    if (epoch, leader_id) != (state.epoch, state.leader_id):
        state.epoch, state.leader_id = epoch, leader_id
        state.persist()
    deadline_ms = now_ms + state.times.fetch_timeout_ms
    _enter(state, Follower(leader_id=leader_id, deadline_ms=deadline_ms))


def look_around(state: ReplicaState, leader_id: NodeId) -> None:
    """An observer has lost its leader. It asks the voters until one names another leader, or until
    this one replies again: others may not have noticed yet that it has gone.
    """
    assert not state.may_stand, state.key
    _enter(state, Unattached(leader_id=leader_id, elect_ms=None, lost_leader_id=leader_id))


def become_prospective(state: ReplicaState, now_ms: int) -> None:
    assert state.may_stand, state.key
    attempts = _attempts(state.role) + 1
    leader_id = state.leader_id if state.leader_id != state.key.node_id else None
    state.hurry = False
    _enter(
        state,
        Prospective(
            leader_id=leader_id,
            deadline_ms=now_ms + election_wait_ms(state.times, state.draw),
            attempts=attempts,
            granted=_own_vote(state),
        ),
    )


def become_candidate(state: ReplicaState, now_ms: int) -> None:
    assert state.may_stand, state.key
    attempts = max(1, _attempts(state.role))
    state.epoch = LeaderEpoch(state.epoch + 1)
    state.leader_id, state.voted = None, state.key
    state.persist()
    state.hurry = False
    _enter(
        state,
        Candidate(
            deadline_ms=now_ms + election_wait_ms(state.times, state.draw),
            attempts=attempts,
            granted=_own_vote(state),
        ),
    )


def become_leader(state: ReplicaState, granted: set[NodeId], now_ms: int) -> None:
    assert len(granted) >= state.voters.majority, granted
    assert state.voted == state.key and state.leader_id is None
    state.leader_id = state.key.node_id
    state.persist()
    others = [voter.node_id for voter in state.other_voters]
    leader = Leader(
        epoch_start=state.log.end_offset,
        voters=state.voters,
        key=state.key,
        ends={},
        fetched_ms=dict.fromkeys(others, now_ms),
        remind_ms=dict.fromkeys(others, now_ms),
    )
    _enter(state, leader)
    # What formatting wrote is on the voters' disks alone: others read the voters in the log.
    voters = state.voters
    named = not voters.is_fixed and state.voter_sets.latest.offset == NOT_IN_LOG
    state.effects.append(
        AppendLeaderChange(
            epoch=state.epoch, granting=tuple(sorted(granted)), voters=voters, named=named
        )
    )
    state.log.append(state.epoch, Offset(state.log.end_offset + (3 if named else 1)))
    if named:
        offset = Offset(state.log.end_offset - 1)
        state.voter_sets.append(VotersAt(offset=offset, voters=voters))
    state.effects.append(Sync())


def become_resigned(state: ReplicaState, now_ms: int, *, for_good: bool) -> None:
    """Leads no more. The voters hear of it; those with the longest logs are to stand first."""
    role = state.role
    assert isinstance(role, Leader), role
    ends = role.ends
    others = sorted(state.other_voters, key=lambda voter: -ends.get(voter.node_id, 0))
    elect_ms = None if for_good else now_ms + election_wait_ms(state.times, state.draw)
    resigned = Resigned(
        elect_ms=elect_ms,
        successors=tuple(others),
        remind_ms={voter.node_id: now_ms for voter in others},
    )
    _enter(state, resigned)


def become_observer(state: ReplicaState) -> None:
    """A leader that was removed has resigned, and had time to say so."""
    assert not state.may_stand, state.key
    _enter(state, Unattached(leader_id=state.leader_id, elect_ms=None))


def lose_election(state: ReplicaState, now_ms: int) -> None:
    """Too few votes, or too late. A leader that nobody else misses is followed again."""
    role = state.role
    assert isinstance(role, Prospective | Candidate), role
    wait_ms = election_wait_ms(state.times, state.draw) + backoff_ms(
        state.times, state.draw, attempts=role.attempts
    )
    _stand_later(state, role, now_ms + wait_ms)


def stand_back(state: ReplicaState, until_ms: int) -> None:
    """Leaves an election to another voter, which has until then to win it."""
    role = state.role
    assert isinstance(role, Prospective), role
    _stand_later(state, role, until_ms)


def learn(state: ReplicaState, epoch: LeaderEpoch, leader_id: NodeId | None, now_ms: int) -> bool:
    """What any message tells of the epoch and its leader; whether that changed the role."""
    known = leader_id is not None and leader_id != state.key.node_id
    if epoch > state.epoch:
        if known:
            assert leader_id is not None
            become_follower(state, epoch, leader_id, now_ms)
        else:
            become_unattached(state, epoch, now_ms)
        return True
    if epoch == state.epoch and known:
        assert leader_id is not None
        named_before = state.leader_id == leader_id and isinstance(state.role, Unattached)
        if state.leader_id is None or named_before:
            become_follower(state, epoch, leader_id, now_ms)
            return True
    return False


def commit(state: ReplicaState, offset: Offset) -> None:
    """The high watermark moves, never back."""
    if offset > state.high_watermark:
        assert offset <= state.log.end_offset, (offset, state.log.end_offset)
        state.high_watermark = offset
        state.effects.append(Committed(offset=offset))


def _stand_later(state: ReplicaState, role: Prospective | Candidate, elect_ms: int) -> None:
    if isinstance(role, Prospective) and role.leader_id is not None:
        follower = Follower(
            leader_id=role.leader_id,
            deadline_ms=elect_ms,
            lost=True,
            attempts=role.attempts,
        )
        return _enter(state, follower)
    return _enter(
        state, Unattached(leader_id=state.leader_id, elect_ms=elect_ms, attempts=role.attempts)
    )


def _enter(state: ReplicaState, role: Role) -> None:
    before = state.role
    state.role = role
    if isinstance(before, Leader):
        _answer_waiting(state, before)
    state.effects.append(Became(role=role.name, epoch=state.epoch, leader_id=state.known_leader))


def _answer_waiting(state: ReplicaState, before: Leader) -> None:
    """Fetches that waited for a leader which leads no more."""
    for waiting in before.waiting:
        refuse_fetch(state, waiting.token, Refused.NOT_LEADER)
    before.waiting.clear()


def _next_election_ms(state: ReplicaState, now_ms: int) -> int | None:
    if not state.may_stand:
        return None
    return now_ms + election_wait_ms(state.times, state.draw)


def _elect_ms_kept(role: Role) -> int | None:
    """An election that was due stays due: a later epoch of others is no reason to wait longer."""
    if isinstance(role, Unattached):
        return role.elect_ms
    if isinstance(role, Prospective | Candidate):
        return role.deadline_ms
    return None


def _own_vote(state: ReplicaState) -> set[NodeId]:
    """A replica that is being removed does not count itself."""
    return {state.key.node_id} if state.is_voter else set()


def _attempts(role: Role) -> int:
    if isinstance(role, Unattached | Follower | Prospective | Candidate):
        return role.attempts
    return 0

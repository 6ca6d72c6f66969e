"""Changes of the voters, which the leader makes (KIP-853).

One at a time: the set before it is committed, so that two majorities always share a voter. And only
after the leader has committed a record of its own epoch: before that it does not know whether a
change of an earlier leader is committed. A change is in force when it is appended.

A leader may remove itself. It leads on until the removal is committed, without counting itself, and
then resigns.
"""

from enum import Enum

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.raft.effects import AppendVoters, Sync
from penstock.raft.leading import own_log_grew, own_log_synced
from penstock.raft.roles.leader import Leader
from penstock.raft.state import ReplicaState
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterSet

KRAFT_VERSION_WITH_VOTERS = 1


class ChangeRefused(Enum):
    """Why voters are not changed. Those of RETRIABLE may be asked for again in a moment."""

    NOT_LEADER = "this replica does not lead"
    FIXED_VOTERS = "kraft.version is 0: the voters are those of controller.quorum.voters"
    EPOCH_NOT_COMMITTED = "the leader has not committed a record of its epoch yet"
    CHANGE_PENDING = "another change of the voters is not committed yet"
    DUPLICATE_VOTER = "the node is a voter already"
    VOTER_NOT_FOUND = "the node is no voter with this directory id"
    NOT_CAUGHT_UP = "the replica has not fetched up to the leader's end recently"
    LAST_VOTER = "the last voter cannot be removed"
    VOTERS_UNSAID = "not every voter has said where it listens and what it supports"
    VERSION_NOT_SUPPORTED = "a voter does not support kraft.version 1"
    UPGRADED = "kraft.version is 1 already"


RETRIABLE = frozenset(
    {
        ChangeRefused.EPOCH_NOT_COMMITTED,
        ChangeRefused.CHANGE_PENDING,
        ChangeRefused.NOT_CAUGHT_UP,
        ChangeRefused.VOTERS_UNSAID,
    }
)


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """A set was appended, or nothing had to be; it is done once `offset` is committed."""

    offset: Offset


def add_voter(
    state: ReplicaState, key: ReplicaKey, details: VoterDetails, now_ms: int
) -> VoterChange | ChangeRefused:
    """Adds an observer whose fetches have reached the leader's end: it must not delay commits."""
    refusal = _not_now(state)
    if refusal is not None:
        return refusal
    role = state.role
    assert isinstance(role, Leader)
    if key.node_id in state.voters.keys:
        return ChangeRefused.DUPLICATE_VOTER
    if details.kraft_version_max < KRAFT_VERSION_WITH_VOTERS:
        return ChangeRefused.VERSION_NOT_SUPPORTED
    known = role.observers.get(key)
    recently_ms = now_ms - state.times.fetch_timeout_ms
    if known is None or known.caught_up_ms < 0 or known.caught_up_ms < recently_ms:
        return ChangeRefused.NOT_CAUGHT_UP
    return append_voters(state, state.voters.with_voter(key, details), now_ms)


def remove_voter(state: ReplicaState, key: ReplicaKey, now_ms: int) -> VoterChange | ChangeRefused:
    refusal = _not_now(state)
    if refusal is not None:
        return refusal
    if key.directory_id is None or not state.voters.includes(key):
        return ChangeRefused.VOTER_NOT_FOUND
    if len(state.voters.keys) == 1:
        return ChangeRefused.LAST_VOTER
    return append_voters(state, state.voters.without(key.node_id), now_ms)


def update_voter(
    state: ReplicaState, key: ReplicaKey, details: VoterDetails, now_ms: int
) -> VoterChange | ChangeRefused:
    """A voter says where it listens. With kraft.version 0 the leader keeps it for the upgrade."""
    role = state.role
    if not isinstance(role, Leader):
        return ChangeRefused.NOT_LEADER
    if key.directory_id is None or not state.voters.includes(key):
        return ChangeRefused.VOTER_NOT_FOUND
    if state.voters.is_fixed:
        role.updates[key.node_id] = (key, details)
        return VoterChange(offset=state.voter_sets.latest.offset)
    if state.voters.details_of(key.node_id) == details:
        return VoterChange(offset=state.voter_sets.latest.offset)
    if details.kraft_version_max < KRAFT_VERSION_WITH_VOTERS:
        return ChangeRefused.VERSION_NOT_SUPPORTED
    refusal = _not_now(state)
    if refusal is not None:
        return refusal
    return append_voters(state, state.voters.with_voter(key, details), now_ms)


def upgrade_voters(
    state: ReplicaState, own: VoterDetails, now_ms: int, *, try_only: bool = False
) -> VoterChange | ChangeRefused:
    """kraft.version 0 becomes 1: the fixed voters are written to the log with the directory ids
    that they have now.
    """
    role = state.role
    if not isinstance(role, Leader):
        return ChangeRefused.NOT_LEADER
    if not state.voters.is_fixed:
        return ChangeRefused.UPGRADED
    if state.high_watermark <= role.epoch_start:
        return ChangeRefused.EPOCH_NOT_COMMITTED
    found: dict[NodeId, tuple[ReplicaKey, VoterDetails]] = {
        **role.updates,
        state.key.node_id: (state.key, own),
    }
    if any(node not in found for node in state.voters.keys):
        return ChangeRefused.VOTERS_UNSAID
    if any(found[node][1].kraft_version_max < 1 for node in state.voters.keys):
        return ChangeRefused.VERSION_NOT_SUPPORTED
    if try_only:
        return VoterChange(offset=state.voter_sets.latest.offset)
    voters = VoterSet(
        [found[node][0] for node in state.voters.node_ids],
        {node: found[node][1] for node in state.voters.node_ids},
    )
    return append_voters(state, voters, now_ms)


def append_voters(state: ReplicaState, voters: VoterSet, now_ms: int) -> VoterChange:
    """Appends a set, which is in force from here on. Nothing is checked."""
    role = state.role
    assert isinstance(role, Leader), role
    upgrades = state.voters.is_fixed
    state.effects.append(AppendVoters(epoch=state.epoch, voters=voters, upgrades=upgrades))
    end_offset = Offset(state.log.end_offset + (2 if upgrades else 1))
    state.log.append(state.epoch, end_offset)
    change = VoterChange(offset=Offset(end_offset - 1))
    state.voter_sets.append(VotersAt(offset=change.offset, voters=voters))
    role.use(voters, state.key, now_ms)
    state.effects.append(Sync())
    own_log_grew(state)
    own_log_synced(state, now_ms)  # a smaller set may have a majority for what is durable already
    return change


def _not_now(state: ReplicaState) -> ChangeRefused | None:
    role = state.role
    if not isinstance(role, Leader):
        return ChangeRefused.NOT_LEADER
    if state.voters.is_fixed:
        return ChangeRefused.FIXED_VOTERS
    if state.high_watermark <= role.epoch_start:
        return ChangeRefused.EPOCH_NOT_COMMITTED
    if state.high_watermark <= state.voter_sets.latest.offset:
        return ChangeRefused.CHANGE_PENDING
    return None

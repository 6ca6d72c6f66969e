"""The messages of the quorum as values: what `wire/messages` says, without topics and versions.

Every reply tells the sender's epoch and the leader that it knows; a replica learns of both from
any reply. `error` says why a request was not done.
"""

from enum import Enum

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.log_ends import LogEnd
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import ReplicaKey, VoterSet

# A value that only the driver understands. mypyc takes no field of type `object` in a dataclass.
Opaque = object | None


class Refused(Enum):
    """Why a replica does not do what a request asks. The driver maps them to error codes."""

    FENCED_LEADER_EPOCH = "fenced leader epoch"  # the sender's epoch is over
    UNKNOWN_LEADER_EPOCH = "unknown leader epoch"  # the sender knows of a later one
    NOT_LEADER = "not leader"
    INVALID_VOTER_KEY = "invalid voter key"  # meant for another directory of this node
    INCONSISTENT_VOTER_SET = "inconsistent voter set"  # the sender is no voter here
    INVALID_REQUEST = "invalid request"
    SNAPSHOT_NOT_FOUND = "snapshot not found"
    POSITION_OUT_OF_RANGE = "position out of range"


@dataclass(slots=True, kw_only=True)
class VoteRequest:
    """`pre_vote`: would you vote for me? It binds nobody. `epoch` is then the sender's own."""

    epoch: LeaderEpoch
    candidate: ReplicaKey
    voter: ReplicaKey  # whom it is meant for
    log_end: LogEnd
    pre_vote: bool


@dataclass(slots=True, kw_only=True)
class VoteReply:
    epoch: LeaderEpoch
    leader_id: NodeId | None
    granted: bool
    error: Refused | None = None


@dataclass(slots=True, kw_only=True)
class BeginEpochRequest:
    """The sender leads this epoch: fetch from it."""

    epoch: LeaderEpoch
    leader_id: NodeId
    voter: ReplicaKey


@dataclass(slots=True, kw_only=True)
class BeginEpochReply:
    epoch: LeaderEpoch
    leader_id: NodeId | None
    error: Refused | None = None


@dataclass(slots=True, kw_only=True)
class EndEpochRequest:
    """The sender has ceased to lead; the first of `successors` is to stand for election at once."""

    epoch: LeaderEpoch
    leader_id: NodeId
    successors: tuple[ReplicaKey, ...]


@dataclass(slots=True, kw_only=True)
class EndEpochReply:
    epoch: LeaderEpoch
    leader_id: NodeId | None
    error: Refused | None = None


@dataclass(slots=True, kw_only=True)
class FetchRequest:
    """`log_end` is where the sender's durable log ends: what it fetches, and what it acks.
    `high_watermark` is the one it knows (KIP-1166), None for a sender that does not say.
    """

    epoch: LeaderEpoch
    replica: ReplicaKey
    log_end: LogEnd
    high_watermark: Offset | None
    wait_ms_max: int


@dataclass(slots=True, kw_only=True)
class Run:
    """Consecutive records of one epoch that end before `end_offset`."""

    epoch: LeaderEpoch
    end_offset: Offset


@dataclass(slots=True, kw_only=True)
class FetchReply:
    """Records from the offset that was asked for, where logs diverge, or a snapshot to begin
    with. `records` belongs to the driver, which puts them in when the reply leaves.
    """

    epoch: LeaderEpoch
    leader_id: NodeId | None
    high_watermark: Offset
    runs: tuple[Run, ...] = ()
    records: Opaque = None
    voter_sets: tuple[VotersAt, ...] = ()  # that the records name
    diverging: LogEnd | None = None
    snapshot: SnapshotId | None = None
    error: Refused | None = None


@dataclass(slots=True, kw_only=True)
class FetchSnapshotRequest:
    epoch: LeaderEpoch
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int


@dataclass(slots=True, kw_only=True)
class FetchSnapshotReply:
    """`length` bytes of the snapshot from `position` on; it has `size` bytes. `voters` are those
    that it names: the receiver's driver puts them in when the last bytes have come.
    """

    epoch: LeaderEpoch
    leader_id: NodeId | None
    snapshot: SnapshotId
    size: int = 0
    position: int = 0
    length: int = 0
    data: Opaque = None
    voters: VoterSet | None = None
    error: Refused | None = None


Request = VoteRequest | BeginEpochRequest | EndEpochRequest | FetchRequest | FetchSnapshotRequest
Reply = VoteReply | BeginEpochReply | EndEpochReply | FetchReply | FetchSnapshotReply

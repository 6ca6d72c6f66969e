"""What a replica wants done, in this order. The driver carries each out before the next.

All but Sync are done when the driver goes on: a vote is on disk before its reply leaves. Sync is
carried out beside, and `Replica.synced` reports it.
"""

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.messages import FetchReply, FetchSnapshotRequest, Opaque, Reply, Request
from penstock.raft.voters import ReplicaKey, VoterSet


@dataclass(slots=True, kw_only=True)
class HardState:
    """What must survive any crash: the file `quorum-state`."""

    epoch: LeaderEpoch
    leader_id: NodeId | None
    voted: ReplicaKey | None


@dataclass(slots=True, kw_only=True)
class Persist:
    """Make this durable before anything else leaves."""

    state: HardState


@dataclass(slots=True, kw_only=True)
class Truncate:
    """Cut the log off at this offset."""

    offset: Offset


@dataclass(slots=True, kw_only=True)
class AppendFetched:
    """Append the leader's records, which begin at the log's end."""

    reply: FetchReply


@dataclass(slots=True, kw_only=True)
class AppendLeaderChange:
    """Append the control record that begins an epoch of this leader: one record. Where the log does
    not name its voters yet, two more follow in the same batch, which do: `named`.
    """

    epoch: LeaderEpoch
    granting: tuple[NodeId, ...]
    voters: VoterSet
    named: bool


@dataclass(slots=True, kw_only=True)
class AppendVoters:
    """Append the record of a voter set; `upgrades`: with that of kraft.version 1 before it."""

    epoch: LeaderEpoch
    voters: VoterSet
    upgrades: bool


@dataclass(slots=True, kw_only=True)
class Sync:
    """Make the log durable up to its end: call `begin_sync`, sync, then call `synced`."""


@dataclass(slots=True, kw_only=True)
class Send:
    """A request to a replica; `number` comes back with its reply, or with its failure."""

    to: NodeId
    number: int
    request: Request


@dataclass(slots=True, kw_only=True)
class Answer:
    """The reply to a request that came with this token."""

    token: Opaque
    reply: Reply


@dataclass(slots=True, kw_only=True)
class AnswerFetch:
    """The same, for a fetch: the driver reads records from `from_offset` on, puts them into the
    reply, and sends it.
    """

    token: Opaque
    reply: FetchReply
    from_offset: Offset


@dataclass(slots=True, kw_only=True)
class AnswerSnapshot:
    """The same, for a part of a snapshot: the driver reads it, or refuses."""

    token: Opaque
    epoch: LeaderEpoch
    leader_id: NodeId
    request: FetchSnapshotRequest


@dataclass(slots=True, kw_only=True)
class StoreSnapshotPart:
    """Write a part of a snapshot at its position in an unfinished file."""

    snapshot: SnapshotId
    position: int
    data: Opaque


@dataclass(slots=True, kw_only=True)
class InstallSnapshot:
    """The snapshot is whole: it takes the place of the log, durably."""

    snapshot: SnapshotId


@dataclass(slots=True, kw_only=True)
class Became:
    """The role, the epoch or the leader has changed."""

    role: str
    epoch: LeaderEpoch
    leader_id: NodeId | None


@dataclass(slots=True, kw_only=True)
class Committed:
    """The high watermark has moved: everything below it is kept for good."""

    offset: Offset


Effect = (
    Persist
    | Truncate
    | AppendFetched
    | AppendLeaderChange
    | AppendVoters
    | Sync
    | Send
    | Answer
    | AnswerFetch
    | AnswerSnapshot
    | StoreSnapshotPart
    | InstallSnapshot
    | Became
    | Committed
)

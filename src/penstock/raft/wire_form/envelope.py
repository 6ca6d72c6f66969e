"""What all messages of the quorum share: one partition of one topic, an epoch, a leader, an error.

A message for another cluster, or about another partition, is refused as a whole: MeantForOthers.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from penstock.model.error import ErrorCode, PenstockError
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.offset import LeaderEpoch
from penstock.raft.messages import Refused
from penstock.raft.voters import ReplicaKey

NO_NODE = -1
NO_DIRECTORY_ID = bytes(16)
PARTITION = 0

CODES: Mapping[Refused, ErrorCode] = {
    Refused.FENCED_LEADER_EPOCH: ErrorCode.FENCED_LEADER_EPOCH,
    Refused.UNKNOWN_LEADER_EPOCH: ErrorCode.UNKNOWN_LEADER_EPOCH,
    Refused.NOT_LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Refused.INVALID_VOTER_KEY: ErrorCode.INVALID_VOTER_KEY,
    Refused.INCONSISTENT_VOTER_SET: ErrorCode.INCONSISTENT_VOTER_SET,
    Refused.INVALID_REQUEST: ErrorCode.INVALID_REQUEST,
    Refused.SNAPSHOT_NOT_FOUND: ErrorCode.SNAPSHOT_NOT_FOUND,
    Refused.POSITION_OUT_OF_RANGE: ErrorCode.POSITION_OUT_OF_RANGE,
}
REFUSALS: Mapping[int, Refused] = {code: refused for refused, code in CODES.items()}


class MeantForOthers(PenstockError):
    """A request that is not about this cluster's metadata log, or that no replica can mean."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnusableReply(PenstockError):
    """A reply that says nothing about the metadata log: an error as a whole, or a malformed one."""


class OfAnotherCluster(UnusableReply):
    """The other node belongs to another cluster, and says so."""


Partition = TypeVar("Partition")


def check_cluster(cluster_id: str | None, *, own: str) -> None:
    """A peer that names no cluster is believed."""
    if cluster_id is not None and cluster_id != own:
        raise MeantForOthers(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the request is for cluster {cluster_id}, this is a node of cluster {own}",
        )


def only(topics: Sequence[tuple[str, Sequence[Partition]]]) -> Partition:
    """The one partition that a request is about."""
    if len(topics) == 1:
        [(name, partitions)] = topics
        if name == METADATA_TOPIC and len(partitions) == 1:
            return partitions[0]
    raise MeantForOthers(
        ErrorCode.INVALID_REQUEST, f"the request is not about {METADATA_TOPIC} alone"
    )


def only_of_reply(error_code: int, topics: Sequence[tuple[str, Sequence[Partition]]]) -> Partition:
    """The one partition that a reply is about."""
    refuse_error(error_code)
    try:
        return only(topics)
    except MeantForOthers as error:
        raise UnusableReply("the reply is not about the metadata log") from error


def refuse_error(error_code: int) -> None:
    """UnusableReply for a reply that is an error as a whole."""
    if error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        raise OfAnotherCluster(f"refused with {code_name(error_code)}")
    if error_code != ErrorCode.NONE:
        raise UnusableReply(f"refused with {code_name(error_code)}")


def code_name(error_code: int) -> str:
    """A peer may be newer than this node, and have codes that it does not know."""
    known = error_code in ErrorCode._value2member_map_
    return ErrorCode(error_code).name if known else f"error code {error_code}"


def refused(error_code: int) -> Refused | None:
    """What an error code of a partition means; UnusableReply for one that no replica sends."""
    if error_code == ErrorCode.NONE:
        return None
    known = REFUSALS.get(error_code)
    if known is None:
        raise UnusableReply(f"refused with {code_name(error_code)}")
    return known


def code(error: Refused | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else CODES[error]


def node_or_none(node_id: int) -> NodeId | None:
    return None if node_id < 0 else NodeId(node_id)


def id_or_none(node_id: NodeId | None) -> int:
    return NO_NODE if node_id is None else node_id


def replica_key(node_id: int, directory_id: bytes) -> ReplicaKey:
    return ReplicaKey(NodeId(node_id), None if directory_id == NO_DIRECTORY_ID else directory_id)


def directory_or_zero(key: ReplicaKey) -> bytes:
    return NO_DIRECTORY_ID if key.directory_id is None else key.directory_id


def checked_epoch(epoch: int) -> LeaderEpoch:
    if epoch < 0:
        raise MeantForOthers(ErrorCode.INVALID_REQUEST, f"the epoch {epoch} is negative")
    return LeaderEpoch(epoch)

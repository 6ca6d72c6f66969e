"""EndQuorumEpoch: a leader of the quorum resigns, and voters elect without a time-out (KIP-595).

It names the voters in the order in which they should stand for election: by id in version 0, by id
and directory id from version 1 on (KIP-853).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    nullable,
    string,
    tagged,
    uuid,
)
from penstock.wire.messages.endpoints import NamedEndpoint, NodeEndpoint


class PreferredCandidate(Struct):
    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


class EndQuorumEpochPartition(Struct):
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32(), "0")
    preferred_candidates: list[PreferredCandidate] = array(PreferredCandidate, "1+")


class EndQuorumEpochTopic(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochPartition] = array(EndQuorumEpochPartition)


class EndQuorumEpochRequest(Message, key=ApiKey.END_QUORUM_EPOCH, versions="0-1", flexible_from=1):
    cluster_id: str | None = nullable(string(), default=None)
    topics: list[EndQuorumEpochTopic] = array(EndQuorumEpochTopic)
    leader_endpoints: list[NamedEndpoint] = array(NamedEndpoint, "1+")


class EndQuorumEpochPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()  # -1 where the leader is not known
    leader_epoch: int = int32()


class EndQuorumEpochTopicResult(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochPartitionResult] = array(EndQuorumEpochPartitionResult)


class EndQuorumEpochResponse(Message, key=ApiKey.END_QUORUM_EPOCH, versions="0-1", flexible_from=1):
    error_code: int = int16()
    topics: list[EndQuorumEpochTopicResult] = array(EndQuorumEpochTopicResult)
    node_endpoints: list[NodeEndpoint] = tagged(0, array(NodeEndpoint, "1+"))

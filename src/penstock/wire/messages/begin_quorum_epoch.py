"""BeginQuorumEpoch: a newly elected leader of the quorum tells the voters its epoch (KIP-595).

Version 1 names the receiver by directory id as well, and says where the leader listens (KIP-853).
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


class BeginQuorumEpochPartition(Struct):
    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+")  # of the receiver
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochTopic(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochPartition] = array(BeginQuorumEpochPartition)


class BeginQuorumEpochRequest(
    Message, key=ApiKey.BEGIN_QUORUM_EPOCH, versions="0-1", flexible_from=1
):
    cluster_id: str | None = nullable(string(), default=None)
    voter_id: int = int32("1+", default=-1)  # of the receiver
    topics: list[BeginQuorumEpochTopic] = array(BeginQuorumEpochTopic)
    leader_endpoints: list[NamedEndpoint] = array(NamedEndpoint, "1+")


class BeginQuorumEpochPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()  # -1 where the leader is not known
    leader_epoch: int = int32()


class BeginQuorumEpochTopicResult(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochPartitionResult] = array(BeginQuorumEpochPartitionResult)


class BeginQuorumEpochResponse(
    Message, key=ApiKey.BEGIN_QUORUM_EPOCH, versions="0-1", flexible_from=1
):
    error_code: int = int16()
    topics: list[BeginQuorumEpochTopicResult] = array(BeginQuorumEpochTopicResult)
    node_endpoints: list[NodeEndpoint] = tagged(0, array(NodeEndpoint, "1+"))

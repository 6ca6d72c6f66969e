"""DescribeQuorum: who leads the quorum, and how far each voter and observer has come (KIP-595).

Version 1 adds when a replica last fetched and last had all (KIP-836); version 2 adds directory ids,
error messages, and where the voters listen (KIP-853).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    prose,
    string,
    uuid,
)
from penstock.wire.messages.endpoints import NamedEndpoint


class DescribeQuorumPartition(Struct):
    partition_index: int = int32()


class DescribeQuorumTopic(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumPartition] = array(DescribeQuorumPartition)


class DescribeQuorumRequest(Message, key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible_from=0):
    topics: list[DescribeQuorumTopic] = array(DescribeQuorumTopic)


class QuorumReplica(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()  # -1 where it is not known
    last_fetch_timestamp: int = int64("1+", default=-1)  # by the leader's clock
    last_caught_up_timestamp: int = int64("1+", default=-1)


class QuorumPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = prose("2+")
    leader_id: int = int32()  # -1 where the leader is not known
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[QuorumReplica] = array(QuorumReplica)
    observers: list[QuorumReplica] = array(QuorumReplica)


class QuorumTopic(Struct):
    topic_name: str = string()
    partitions: list[QuorumPartition] = array(QuorumPartition)


class QuorumNode(Struct):
    node_id: int = int32()
    listeners: list[NamedEndpoint] = array(NamedEndpoint)


class DescribeQuorumResponse(Message, key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible_from=0):
    error_code: int = int16()
    error_message: str | None = prose("2+")
    topics: list[QuorumTopic] = array(QuorumTopic)
    nodes: list[QuorumNode] = array(QuorumNode, "2+")

"""ElectLeaders: an operator lets partitions elect a leader, preferred or unclean (KIP-460)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
)


class ElectedTopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class ElectLeadersRequest(Message, key=ApiKey.ELECT_LEADERS, versions="0-2", flexible_from=2):
    election_type: int = int8("1+")  # 0 preferred, 1 unclean
    topic_partitions: list[ElectedTopicPartitions] | None = nullable(
        array(ElectedTopicPartitions)  # None: all partitions
    )
    timeout_ms: int = int32(default=60000)


class ElectedPartition(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()


class ElectedTopic(Struct):
    topic: str = string()
    partition_result: list[ElectedPartition] = array(ElectedPartition)


class ElectLeadersResponse(Message, key=ApiKey.ELECT_LEADERS, versions="0-2", flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ElectedTopic] = array(ElectedTopic)

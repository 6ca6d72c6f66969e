"""ConsumerGroupHeartbeat: a member joins, stays in and leaves a group of the consumer protocol
(KIP-848).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    nullable,
    nullable_struct,
    prose,
    string,
    uuid,
)


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupHeartbeatRequest(
    Message, key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible_from=0
):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = nullable(string(), default=None)
    rack_id: str | None = nullable(string(), default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = nullable(array(string()), default=None)
    subscribed_topic_regex: str | None = nullable(string("1+"), "1+", default=None)
    server_assignor: str | None = nullable(string(), default=None)
    topic_partitions: list[TopicPartitions] | None = nullable(array(TopicPartitions), default=None)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(
    Message, key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    member_id: str | None = nullable(string(), default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nullable_struct(Assignment)

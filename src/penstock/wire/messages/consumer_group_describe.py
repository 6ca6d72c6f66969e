"""ConsumerGroupDescribe: groups of the consumer protocol with epochs, members and assignments
(KIP-848); from version 1 also which protocol each member speaks (KIP-1099).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    embedded,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
    uuid,
)


class ConsumerGroupDescribeRequest(
    Message, key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible_from=0
):
    group_ids: list[str] = array(string())
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32())


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = nullable(string(), default=None)
    rack_id: str | None = nullable(string(), default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    subscribed_topic_regex: str | None = nullable(string(), default=None)
    assignment: Assignment = embedded(Assignment)
    target_assignment: Assignment = embedded(Assignment)
    member_type: int = int8("1+", default=-1)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = prose()
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(2**31))


class ConsumerGroupDescribeResponse(
    Message, key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible_from=0
):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)

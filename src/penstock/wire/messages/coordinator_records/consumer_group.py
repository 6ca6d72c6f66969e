"""A group of the consumer protocol (KIP-848): the group, its members, what each is to own (the
target) and what each owns now (the current assignment), and its regular expressions.
"""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int32,
    int64,
    nullable,
    nullable_struct,
    octets,
    string,
    tagged,
    uuid,
)


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible_from=0):
    epoch: int = int32()
    metadata_hash: int = tagged(0, int64())


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = octets()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible_from=0):
    instance_id: str | None = nullable(string())
    rack_id: str | None = nullable(string())
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    subscribed_topic_regex: str | None = nullable(string())
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = nullable(string())
    classic_member_metadata: ClassicMemberMetadata | None = tagged(
        0, nullable_struct(ClassicMemberMetadata)
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible_from=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = tagged(0, int64())


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TargetTopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible_from=0):
    topic_partitions: list[TargetTopicPartition] = array(TargetTopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    group_id: str = string()
    member_id: str = string()


class CurrentTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())
    assignment_epochs: list[int] | None = tagged(0, nullable(array(int32())))


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible_from=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible_from=0):
    topics: list[str] = array(string())
    version: int = int64()
    timestamp: int = int64()

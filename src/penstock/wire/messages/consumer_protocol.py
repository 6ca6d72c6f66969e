"""What consumers of a classic group tell each other in bytes that brokers pass on unread.

A member's metadata in JoinGroup is a version (int16) and a ConsumerProtocolSubscription; what the
leader assigns in SyncGroup is a version and a ConsumerProtocolAssignment. `wire/embedded` reads and
writes them whole. Version 1 tells the partitions owned, 2 of which generation, 3 the rack.
"""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int32,
    nullable,
    octets,
    string,
)


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string())
    user_data: bytes | None = nullable(octets(), default=None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = nullable(string("3+"), "3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = nullable(octets(), default=None)

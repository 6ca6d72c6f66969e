"""A group of the classic protocol, whole: its generation and its members."""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int32,
    int64,
    nullable,
    octets,
    string,
)


class GroupMetadataKey(Message, key=2, versions="0"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = nullable(string("3+"), "3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = octets()
    assignment: bytes = octets()


class GroupMetadataValue(Message, key=2, versions="0-4", flexible_from=4):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = nullable(string())
    leader: str | None = nullable(string())
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)

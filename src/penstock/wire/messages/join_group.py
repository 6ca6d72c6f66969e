"""JoinGroup: a member of a classic group asks for its place in the next generation.

Up to version 3 a member comes with an empty id and gets one with the reply; from 4 on it is told
its id at once and asks again with it (KIP-394).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    nullable,
    octets,
    string,
)


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = octets()


class JoinGroupRequest(Message, key=ApiKey.JOIN_GROUP, versions="0-9", flexible_from=6):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = nullable(string("5+"), "5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = nullable(string("8+"), "8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = nullable(string("5+"), "5+", default=None)
    metadata: bytes = octets()


class JoinGroupResponse(Message, key=ApiKey.JOIN_GROUP, versions="0-9", flexible_from=6):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = nullable(string("7+"), "7+", default=None)
    protocol_name: str | None = nullable(string(), "7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)

"""DescribeGroups: state, protocol and members of classic groups."""

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
    prose,
    string,
)


class DescribeGroupsRequest(Message, key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible_from=5):
    groups: list[str] = array(string())
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = nullable(string("4+"), "4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = octets()
    member_assignment: bytes = octets()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = prose("6+")
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-(2**31))


class DescribeGroupsResponse(Message, key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible_from=5):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)

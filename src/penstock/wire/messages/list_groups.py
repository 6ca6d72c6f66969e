"""ListGroups: the groups that a broker coordinates."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=ApiKey.LIST_GROUPS, versions="0-5", flexible_from=3):
    states_filter: list[str] = array(string(), "4+")
    types_filter: list[str] = array(string(), "5+")


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


class ListGroupsResponse(Message, key=ApiKey.LIST_GROUPS, versions="0-5", flexible_from=3):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)

"""DeleteGroups: groups without members that are to be forgotten, with all their offsets."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=ApiKey.DELETE_GROUPS, versions="0-2", flexible_from=2):
    groups_names: list[str] = array(string())


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Message, key=ApiKey.DELETE_GROUPS, versions="0-2", flexible_from=2):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)

"""LeaveGroup: members give up their place in a group.

One member up to version 2; from 3 on many, each by its id or by its group.instance.id.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, nullable, string


class MemberIdentity(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = nullable(string("3+"), "3+", default=None)
    reason: str | None = nullable(string("5+"), "5+", default=None)


class LeaveGroupRequest(Message, key=ApiKey.LEAVE_GROUP, versions="0-5", flexible_from=4):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = nullable(string("3+"), "3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, key=ApiKey.LEAVE_GROUP, versions="0-5", flexible_from=4):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")

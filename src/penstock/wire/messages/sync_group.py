"""SyncGroup: the leader of a classic group brings the assignment, the others fetch their part."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, nullable, octets, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = octets()


class SyncGroupRequest(Message, key=ApiKey.SYNC_GROUP, versions="0-5", flexible_from=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = nullable(string("3+"), "3+", default=None)
    protocol_type: str | None = nullable(string("5+"), "5+", default=None)
    protocol_name: str | None = nullable(string("5+"), "5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, key=ApiKey.SYNC_GROUP, versions="0-5", flexible_from=4):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = nullable(string("5+"), "5+", default=None)
    protocol_name: str | None = nullable(string("5+"), "5+", default=None)
    assignment: bytes = octets()

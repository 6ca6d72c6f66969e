"""Heartbeat: a member of a classic group shows that it lives, and learns of a rebalance."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, nullable, string


class HeartbeatRequest(Message, key=ApiKey.HEARTBEAT, versions="0-4", flexible_from=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = nullable(string("3+"), "3+", default=None)


class HeartbeatResponse(Message, key=ApiKey.HEARTBEAT, versions="0-4", flexible_from=4):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()

"""BrokerHeartbeat: a broker keeps its session with the controller, and asks to be unfenced,
fenced or shut down (KIP-631).

Version 1 names log directories that failed (KIP-858), version 2 those that take no new partitions
(KIP-1066): None there means that the broker does not know yet.

A tagged field of our own in the response says where the controller's committed metadata ends (ADR
41); -1 where it was answered in the same process.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    OWN_TAGS_FROM,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable,
    tagged,
    uuid,
)


class BrokerHeartbeatRequest(Message, key=ApiKey.BROKER_HEARTBEAT, versions="0-2", flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = tagged(0, array(uuid(), "1+"))
    cordoned_log_dirs: list[bytes] | None = tagged(1, nullable(array(uuid(), "2+"), default=None))


class BrokerHeartbeatResponse(
    Message, key=ApiKey.BROKER_HEARTBEAT, versions="0-2", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
    metadata_offset: int = tagged(OWN_TAGS_FROM, int64("0+", default=-1))

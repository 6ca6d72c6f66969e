"""FindCoordinator: the broker that looks after a group or a transactional id.

Versions up to 3 ask for one key and answer in the fields of the message itself; later ones take
many.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    prose,
    string,
)


class FindCoordinatorRequest(Message, key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible_from=3):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string(), "4+")


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()


class FindCoordinatorResponse(
    Message, key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible_from=3
):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = prose("1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")

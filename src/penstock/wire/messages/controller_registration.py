"""ControllerRegistration: a controller tells the active one where it listens (KIP-919)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, array, boolean, int16, int32, prose, uuid
from penstock.wire.messages.registration_parts import RegisteredListener, SupportedFeature


class ControllerRegistrationRequest(
    Message, key=ApiKey.CONTROLLER_REGISTRATION, versions="0", flexible_from=0
):
    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[RegisteredListener] = array(RegisteredListener)
    features: list[SupportedFeature] = array(SupportedFeature)


class ControllerRegistrationResponse(
    Message, key=ApiKey.CONTROLLER_REGISTRATION, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()

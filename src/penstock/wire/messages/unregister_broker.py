"""UnregisterBroker: a broker that will not come back is forgotten by the cluster (KIP-631)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, prose


class UnregisterBrokerRequest(Message, key=ApiKey.UNREGISTER_BROKER, versions="0", flexible_from=0):
    broker_id: int = int32()


class UnregisterBrokerResponse(
    Message, key=ApiKey.UNREGISTER_BROKER, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()

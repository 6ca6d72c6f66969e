"""BrokerRegistration: a broker that starts gets a broker epoch from the controller (KIP-631).

Version 2 lists the broker's log directories (KIP-858), version 3 the epoch that it had before a
clean shutdown (KIP-966). Before version 4 a feature whose least level is 0 is left out.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable,
    string,
    uuid,
)
from penstock.wire.messages.registration_parts import RegisteredListener, SupportedFeature


class BrokerRegistrationRequest(
    Message, key=ApiKey.BROKER_REGISTRATION, versions="0-4", flexible_from=0
):
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[RegisteredListener] = array(RegisteredListener)
    features: list[SupportedFeature] = array(SupportedFeature)
    rack: str | None = nullable(string(), default=None)
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid(), "2+")
    previous_broker_epoch: int = int64("3+", default=-1)


class BrokerRegistrationResponse(
    Message, key=ApiKey.BROKER_REGISTRATION, versions="0-4", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)

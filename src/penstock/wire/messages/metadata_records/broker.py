"""Brokers that register, are fenced and unfenced, and leave."""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable,
    string,
    tagged,
    uint16,
    uuid,
)


class BrokerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Message, key=0, versions="0-4", flexible_from=0):
    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = nullable(string())
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = tagged(0, array(uuid(), "3+"))
    cordoned_log_dirs: list[bytes] | None = tagged(1, nullable(array(uuid(), "4+"), default=None))


class UnregisterBrokerRecord(Message, key=1, versions="0", flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64()


class FenceBrokerRecord(Message, key=7, versions="0", flexible_from=0):
    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message, key=8, versions="0", flexible_from=0):
    id: int = int32()
    epoch: int = int64()


class BrokerRegistrationChangeRecord(Message, key=17, versions="0-3", flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = tagged(0, int8())
    in_controlled_shutdown: int = tagged(1, int8("1+"))
    log_dirs: list[bytes] = tagged(2, array(uuid(), "2+"))
    cordoned_log_dirs: list[bytes] | None = tagged(3, nullable(array(uuid(), "3+"), default=None))

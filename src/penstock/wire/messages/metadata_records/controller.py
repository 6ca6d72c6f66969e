"""A controller that registered; Apache Kafka writes one for each of its controllers."""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
    uint16,
    uuid,
)


class ControllerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Message, key=27, versions="0", flexible_from=0):
    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)

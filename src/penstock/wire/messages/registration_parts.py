"""What brokers and controllers say alike about themselves when they register."""

from penstock.wire.definition import Struct, int16, string, uint16


class RegisteredListener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class SupportedFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()

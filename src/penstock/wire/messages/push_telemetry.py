"""PushTelemetry: the metrics of a client, as OpenTelemetry's MetricsData (KIP-714)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, boolean, int8, int16, int32, octets, uuid


class PushTelemetryRequest(Message, key=ApiKey.PUSH_TELEMETRY, versions="0", flexible_from=0):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = octets()


class PushTelemetryResponse(Message, key=ApiKey.PUSH_TELEMETRY, versions="0", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()

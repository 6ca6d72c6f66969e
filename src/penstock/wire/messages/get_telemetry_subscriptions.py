"""GetTelemetrySubscriptions: which metrics a client pushes, and how often (KIP-714)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class GetTelemetrySubscriptionsRequest(
    Message, key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible_from=0
):
    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(
    Message, key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8())
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string())

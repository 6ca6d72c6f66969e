"""GetTelemetrySubscriptions: which metrics this client is to push, and how often (KIP-714)."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services, telemetry_of
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.api import ApiKey
from penstock.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    services: Services, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    telemetry = telemetry_of(services)
    found = telemetry.ask(
        request.client_instance_id,
        (context.peer.host, context.peer.port),
        context.header.client_id or "",
        now_ms=context.received_ms,
    )
    if isinstance(found, ErrorCode):
        raise RequestError(found)
    instance_id, instance = found
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(telemetry.accepted_codecs),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.push_bytes_max,
        delta_temporality=False,  # totals survive a lost push, and are Prometheus' counters
        requested_metrics=list(instance.metrics),
    )


def refuse(
    request: GetTelemetrySubscriptionsRequest, code: ErrorCode, message: str | None
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=code)


API = Api(
    key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    versions=GetTelemetrySubscriptionsRequest.VERSIONS,
    request=GetTelemetrySubscriptionsRequest,
    handle=handle,
    refuse=refuse,
)

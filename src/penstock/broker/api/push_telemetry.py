"""PushTelemetry: takes the metrics of a client, to be shown beside our own (KIP-714)."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services, telemetry_of
from penstock.broker.request.yielding import Steps, by_turns
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(
    services: Services, request: PushTelemetryRequest, context: RequestContext
) -> PushTelemetryResponse | Awaitable[PushTelemetryResponse]:
    return by_turns(
        _take(services, request, bytes(request.metrics), context), services.long_answers
    )


def refuse(
    request: PushTelemetryRequest, code: ErrorCode, message: str | None
) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=code)


def _take(
    services: Services, request: PushTelemetryRequest, metrics: bytes, context: RequestContext
) -> Steps[PushTelemetryResponse]:
    error = yield from telemetry_of(services).push(
        request,
        metrics,
        (context.peer.host, context.peer.port),
        context.header.client_id or "",
        now_ms=context.received_ms,
    )
    return PushTelemetryResponse(error_code=error)


API = Api(
    key=ApiKey.PUSH_TELEMETRY,
    versions=PushTelemetryRequest.VERSIONS,
    request=PushTelemetryRequest,
    handle=handle,
    refuse=refuse,
)

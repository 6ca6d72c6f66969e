"""Heartbeat: a member of a classic group shows that it lives."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    services: Services, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    reply: HeartbeatResponse | Awaitable[HeartbeatResponse] = services.groups.ask(
        request.group_id, request, context
    )
    return reply


def refuse(request: HeartbeatRequest, code: ErrorCode, message: str | None) -> HeartbeatResponse:
    """While the group is being loaded nobody can say that the member is not in it: all is well."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=code)


API = Api(
    key=ApiKey.HEARTBEAT,
    versions=HeartbeatRequest.VERSIONS,
    request=HeartbeatRequest,
    handle=handle,
    refuse=refuse,
)

"""SyncGroup: the leader brings the assignment of a generation, and members fetch their part."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(
    services: Services, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    reply: SyncGroupResponse | Awaitable[SyncGroupResponse] = services.groups.ask(
        request.group_id, request, context
    )
    return reply


def refuse(request: SyncGroupRequest, code: ErrorCode, message: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


API = Api(
    key=ApiKey.SYNC_GROUP,
    versions=SyncGroupRequest.VERSIONS,
    request=SyncGroupRequest,
    handle=handle,
    refuse=refuse,
)

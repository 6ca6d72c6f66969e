"""LeaveGroup: members give up their places, one or many at a time."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    services: Services, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    reply: LeaveGroupResponse | Awaitable[LeaveGroupResponse] = services.groups.ask(
        request.group_id, request, context
    )
    return reply


def refuse(request: LeaveGroupRequest, code: ErrorCode, message: str | None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)


API = Api(
    key=ApiKey.LEAVE_GROUP,
    versions=LeaveGroupRequest.VERSIONS,
    request=LeaveGroupRequest,
    handle=handle,
    refuse=refuse,
)

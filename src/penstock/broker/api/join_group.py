"""JoinGroup: a member asks its coordinator for a place in the next generation."""

import asyncio

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_FROM = 7  # before, no protocol is an empty name


async def handle(
    services: Services, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse:
    asked = services.groups.ask(request.group_id, request, context)
    reply: JoinGroupResponse = await asked if isinstance(asked, asyncio.Future) else asked
    if reply.protocol_name is None and context.header.api_version < NULL_PROTOCOL_FROM:
        reply.protocol_name = ""
    return reply


def refuse(request: JoinGroupRequest, code: ErrorCode, message: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)


API = Api(
    key=ApiKey.JOIN_GROUP,
    versions=JoinGroupRequest.VERSIONS,
    request=JoinGroupRequest,
    handle=handle,
    refuse=refuse,
)

"""JoinGroup: a member asks its coordinator for a place in the next generation."""

import asyncio
from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_FROM = 7  # before, no protocol is an empty name


def handle(
    services: Services, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    asked = services.groups.ask(request.group_id, request, context)
    version = context.header.api_version
    if isinstance(asked, asyncio.Future):
        return _parked(asked, version=version)
    return _in_form(asked, version=version)


async def _parked(asked: asyncio.Future[JoinGroupResponse], *, version: int) -> JoinGroupResponse:
    return _in_form(await asked, version=version)


def _in_form(reply: JoinGroupResponse, *, version: int) -> JoinGroupResponse:
    if reply.protocol_name is None and version < NULL_PROTOCOL_FROM:
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

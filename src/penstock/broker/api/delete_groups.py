"""DeleteGroups: groups without members are forgotten, with their offsets."""

import asyncio

from penstock.broker.coordinators.ask_each import PARTS_PER_TURN
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.offsets.delete import DeleteGroup
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.api import ApiKey
from penstock.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    services: Services, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    results = []
    for name in dict.fromkeys(request.groups_names):
        results.append(await _delete(services, name, context))
        if len(results) % PARTS_PER_TURN == 0:
            await asyncio.sleep(0)
    return DeleteGroupsResponse(results=results)


def refuse(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_refused(name, code) for name in request.groups_names])


async def _delete(services: Services, name: str, context: RequestContext) -> DeletableGroupResult:
    try:
        reply = services.groups.ask(name, DeleteGroup(group=name), context)
        result = await reply if isinstance(reply, asyncio.Future) else reply
    except RequestError as refusal:
        return _refused(name, refusal.code)
    assert isinstance(result, DeletableGroupResult), result
    return result


def _refused(name: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=name, error_code=code)


API = Api(
    key=ApiKey.DELETE_GROUPS,
    versions=DeleteGroupsRequest.VERSIONS,
    request=DeleteGroupsRequest,
    handle=handle,
    refuse=refuse,
)

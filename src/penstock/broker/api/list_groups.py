"""ListGroups: the groups that this broker coordinates."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(
    services: Services, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    listed = await services.groups.ask_all_shards(request, context)
    return ListGroupsResponse(groups=[group for groups in listed for group in groups])


def refuse(request: ListGroupsRequest, code: ErrorCode, message: str | None) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)


API = Api(
    key=ApiKey.LIST_GROUPS,
    versions=ListGroupsRequest.VERSIONS,
    request=ListGroupsRequest,
    handle=handle,
    refuse=refuse,
)

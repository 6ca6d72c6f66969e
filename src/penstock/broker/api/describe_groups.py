"""DescribeGroups: state, protocol and members of classic groups."""

from penstock.broker.coordinators.ask_each import ask_each
from penstock.broker.request.api_table import Api
from penstock.broker.request.authorized_operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.requests import DescribeGroup
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


async def handle(
    services: Services, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    groups: list[DescribedGroup] = await ask_each(
        list(dict.fromkeys(request.groups)),
        lambda name: services.groups.ask(name, DescribeGroup(group=name), context),
        refuse_group,
    )
    with_operations = request.include_authorized_operations
    for group in groups:
        group.authorized_operations = GROUP_OPERATIONS if with_operations else NOT_ASKED_FOR
    return DescribeGroupsResponse(groups=groups)


def refuse(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[refuse_group(name, code) for name in request.groups])


def refuse_group(name: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=name, error_code=code)


API = Api(
    key=ApiKey.DESCRIBE_GROUPS,
    versions=DescribeGroupsRequest.VERSIONS,
    request=DescribeGroupsRequest,
    handle=handle,
    refuse=refuse,
)

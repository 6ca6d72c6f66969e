"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups."""

from penstock.broker.coordinators.ask_each import ask_each
from penstock.broker.request.api_table import Api
from penstock.broker.request.authorized_operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.requests import DescribeConsumerGroup
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


async def handle(
    services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    groups: list[DescribedGroup] = await ask_each(
        list(dict.fromkeys(request.group_ids)),
        lambda name: services.groups.ask(name, DescribeConsumerGroup(group=name), context),
        refuse_group,
    )
    with_operations = request.include_authorized_operations
    for group in groups:
        group.authorized_operations = GROUP_OPERATIONS if with_operations else NOT_ASKED_FOR
    return ConsumerGroupDescribeResponse(groups=groups)


def refuse(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[refuse_group(name, code) for name in request.group_ids]
    )


def refuse_group(name: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=name, error_code=code)


API = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=ConsumerGroupDescribeRequest.VERSIONS,
    request=ConsumerGroupDescribeRequest,
    handle=handle,
    refuse=refuse,
)

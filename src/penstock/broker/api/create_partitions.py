"""CreatePartitions: more partitions for topics that exist, decided by the controller."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def handle(
    services: NodeServices, request: CreatePartitionsRequest, context: RequestContext
) -> Awaitable[CreatePartitionsResponse]:
    check_entries(len(request.topics))
    return services.controller.ask(
        request, wait_ms_max=request.timeout_ms, requester=context.requester
    )


def refuse(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


API = Api(
    key=ApiKey.CREATE_PARTITIONS,
    versions=CreatePartitionsRequest.VERSIONS,
    request=CreatePartitionsRequest,
    handle=handle,
    refuse=refuse,
)

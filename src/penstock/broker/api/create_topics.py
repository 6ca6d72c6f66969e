"""CreateTopics: decided by the controller; the reply leaves when the topics can be used."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def handle(
    services: NodeServices, request: CreateTopicsRequest, context: RequestContext
) -> Awaitable[CreateTopicsResponse]:
    check_entries(len(request.topics))
    return services.controller.ask(
        request, wait_ms_max=request.timeout_ms, requester=context.requester
    )


def refuse(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=topic.name, error_code=code, error_message=message, configs=[]
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=ApiKey.CREATE_TOPICS,
    versions=CreateTopicsRequest.VERSIONS,
    request=CreateTopicsRequest,
    handle=handle,
    refuse=refuse,
)

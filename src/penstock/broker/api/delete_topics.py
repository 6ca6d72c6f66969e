"""DeleteTopics: decided by the controller, by name or by id."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


def handle(
    services: NodeServices, request: DeleteTopicsRequest, context: RequestContext
) -> Awaitable[DeleteTopicsResponse]:
    check_entries(len(request.topic_names) + len(request.topics))
    return services.controller.ask(
        request, wait_ms_max=request.timeout_ms, requester=context.requester
    )


def refuse(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            *(
                DeletableTopicResult(name=name, error_code=code, error_message=message)
                for name in request.topic_names
            ),
            *(
                DeletableTopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=code,
                    error_message=message,
                )
                for topic in request.topics
            ),
        ]
    )


API = Api(
    key=ApiKey.DELETE_TOPICS,
    versions=DeleteTopicsRequest.VERSIONS,
    request=DeleteTopicsRequest,
    handle=handle,
    refuse=refuse,
)

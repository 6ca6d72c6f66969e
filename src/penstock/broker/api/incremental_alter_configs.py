"""IncrementalAlterConfigs: single settings of topics, brokers, groups or client metrics."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    services: NodeServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Awaitable[IncrementalAlterConfigsResponse]:
    check_entries(sum(1 + len(resource.configs) for resource in request.resources))
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = Api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=IncrementalAlterConfigsRequest.VERSIONS,
    request=IncrementalAlterConfigsRequest,
    handle=handle,
    refuse=refuse,
)

"""AlterConfigs: replaces all settings of a resource; IncrementalAlterConfigs is the better one."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> Awaitable[AlterConfigsResponse]:
    check_entries(sum(1 + len(resource.configs) for resource in request.resources))
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: AlterConfigsRequest, code: ErrorCode, message: str | None
) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
    key=ApiKey.ALTER_CONFIGS,
    versions=AlterConfigsRequest.VERSIONS,
    request=AlterConfigsRequest,
    handle=handle,
    refuse=refuse,
)

"""CreateAcls: adds access control entries; decided by the controller."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices, check_security_enabled
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(
    services: NodeServices, request: CreateAclsRequest, context: RequestContext
) -> Awaitable[CreateAclsResponse]:
    check_security_enabled(services)
    check_entries(len(request.creations))
    return services.controller.ask(request, requester=context.requester)


def refuse(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=code, error_message=message) for _ in request.creations
        ]
    )


API = Api(
    key=ApiKey.CREATE_ACLS,
    versions=CreateAclsRequest.VERSIONS,
    request=CreateAclsRequest,
    handle=handle,
    refuse=refuse,
)

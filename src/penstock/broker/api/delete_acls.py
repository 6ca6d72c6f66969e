"""DeleteAcls: removes the access control entries that filters match; decided by the controller."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices, check_security_enabled
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(
    services: NodeServices, request: DeleteAclsRequest, context: RequestContext
) -> Awaitable[DeleteAclsResponse]:
    check_security_enabled(services)
    # Each filter is compared with each entry, in one step.
    check_entries(len(request.filters) * max(len(services.image.acls) // COMPARED_AT_ONCE, 1))
    return services.controller.ask(request, requester=context.requester)


def refuse(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])
            for _ in request.filters
        ]
    )


COMPARED_AT_ONCE = 100  # entries that take as long as one record of a decision
API = Api(
    key=ApiKey.DELETE_ACLS,
    versions=DeleteAclsRequest.VERSIONS,
    request=DeleteAclsRequest,
    handle=handle,
    refuse=refuse,
)

"""DescribeAcls: the access control entries that a filter matches, as this broker knows them."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices, check_security_enabled
from penstock.broker.request.yielding import Steps, by_turns
from penstock.model.error import ErrorCode, RequestError
from penstock.security.acl.entry import InvalidAcl
from penstock.security.acl.filter import AclFilter, check_filter
from penstock.security.acl.messages import described, filter_of
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(
    services: NodeServices, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse | Awaitable[DescribeAclsResponse]:
    check_security_enabled(services)
    wanted = filter_of(request)
    try:
        check_filter(wanted)
    except InvalidAcl as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return by_turns(_describe(services, wanted), services.long_answers)


def refuse(
    request: DescribeAclsRequest, code: ErrorCode, message: str | None
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=message)


def _describe(services: NodeServices, wanted: AclFilter) -> Steps[DescribeAclsResponse]:
    found = []
    for acl in services.image.acls.values():
        if wanted.matches(acl):
            found.append(acl)
        yield
    found.sort(key=lambda acl: (acl.pattern, acl.principal, acl.host, acl.operation))
    return DescribeAclsResponse(resources=described(found))


API = Api(
    key=ApiKey.DESCRIBE_ACLS,
    versions=DescribeAclsRequest.VERSIONS,
    request=DescribeAclsRequest,
    handle=handle,
    refuse=refuse,
)

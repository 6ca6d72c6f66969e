"""DescribeClientQuotas: there are none. `kafka-configs` asks for them when it shows users."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def handle(
    services: NodeServices, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(entries=[])


def refuse(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


API = Api(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=DescribeClientQuotasRequest.VERSIONS,
    request=DescribeClientQuotasRequest,
    handle=handle,
    refuse=refuse,
)

"""ExpireDelegationToken: the controller ends a token, now or soon (KIP-48)."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.token_requests import check_token_request
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

NEVER = -1


def handle(
    services: NodeServices, request: ExpireDelegationTokenRequest, context: RequestContext
) -> Awaitable[ExpireDelegationTokenResponse]:
    check_token_request(services, context)
    request.hmac = bytes(request.hmac)  # the request is read in place, and it waits
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: ExpireDelegationTokenRequest, code: ErrorCode, message: str | None
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)


API = Api(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    versions=ExpireDelegationTokenRequest.VERSIONS,
    request=ExpireDelegationTokenRequest,
    handle=handle,
    refuse=refuse,
)

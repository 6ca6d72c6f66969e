"""RenewDelegationToken: the controller lets a token count for longer (KIP-48)."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.token_requests import check_token_request
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NEVER = -1


def handle(
    services: NodeServices, request: RenewDelegationTokenRequest, context: RequestContext
) -> Awaitable[RenewDelegationTokenResponse]:
    check_token_request(services, context)
    request.hmac = bytes(request.hmac)  # the request is read in place, and it waits
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: RenewDelegationTokenRequest, code: ErrorCode, message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)


API = Api(
    key=ApiKey.RENEW_DELEGATION_TOKEN,
    versions=RenewDelegationTokenRequest.VERSIONS,
    request=RenewDelegationTokenRequest,
    handle=handle,
    refuse=refuse,
)

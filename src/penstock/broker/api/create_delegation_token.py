"""CreateDelegationToken: the controller makes a token for the client, or for another owner
(KIP-48).
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.token_requests import check_token_request
from penstock.metadata.controller.delegation_tokens import check_principals
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

NEVER = -1


def handle(
    services: NodeServices, request: CreateDelegationTokenRequest, context: RequestContext
) -> Awaitable[CreateDelegationTokenResponse]:
    check_token_request(services, context)
    check_principals(request)
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: CreateDelegationTokenRequest, code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=request.owner_principal_type or "",
        principal_name=request.owner_principal_name or "",
        issue_timestamp_ms=NEVER,
        expiry_timestamp_ms=NEVER,
        max_timestamp_ms=NEVER,
    )


API = Api(
    key=ApiKey.CREATE_DELEGATION_TOKEN,
    versions=CreateDelegationTokenRequest.VERSIONS,
    request=CreateDelegationTokenRequest,
    handle=handle,
    refuse=refuse,
)

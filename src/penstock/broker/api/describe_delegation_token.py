"""DescribeDelegationToken: tokens with their secrets (KIP-48). With an authorizer, a client sees
its own ones and those that it has a right to see: `authorization/tokens`.
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.authorization.tokens import may_see
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.token_requests import check_token_request
from penstock.broker.request.yielding import Steps, by_turns
from penstock.model.error import ErrorCode, RequestError
from penstock.security.delegation_token import DelegationToken, token_hmac
from penstock.security.principal import Principal
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(
    services: NodeServices, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse | Awaitable[DescribeDelegationTokenResponse]:
    """All tokens, or those that some principals own, asked for or may renew."""
    check_token_request(services, context)
    secret = services.settings.delegation_tokens.secret
    if secret is None:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return by_turns(_describe(services, request, context, secret), services.long_answers)


def refuse(
    request: DescribeDelegationTokenRequest, code: ErrorCode, message: str | None
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code)


def _describe(
    services: NodeServices,
    request: DescribeDelegationTokenRequest,
    context: RequestContext,
    secret: str,
) -> Steps[DescribeDelegationTokenResponse]:
    wanted = None
    if request.owners is not None:
        wanted = {
            str(Principal(owner.principal_type, owner.principal_name)) for owner in request.owners
        }
    found = []
    for token in services.image.delegation_tokens.values():
        is_wanted = wanted is None or not wanted.isdisjoint(token.principals)
        if is_wanted and may_see(context, token):
            found.append(_described(token, secret))
        yield
    return DescribeDelegationTokenResponse(tokens=found)


def _described(token: DelegationToken, secret: str) -> DescribedDelegationToken:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.requester)
    renewers = [Principal.parse(renewer) for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.kind, principal_name=one.name)
            for one in renewers
        ],
    )


API = Api(
    key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    versions=DescribeDelegationTokenRequest.VERSIONS,
    request=DescribeDelegationTokenRequest,
    handle=handle,
    refuse=refuse,
)

"""Rights on delegation tokens. A client's own ones need none: those that it owns, asked for, or may
renew.
"""

from penstock.broker.request.authorization.rule import Asked
from penstock.broker.request.token_requests import check_token_request
from penstock.metadata.controller.delegation_tokens import owner_of
from penstock.model.error import ErrorCode, RequestError
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.messages.describe_delegation_token import DescribeDelegationTokenResponse


def create_token(asked: Asked) -> None:
    """A token for another owner needs a right. Whether the client may ask at all comes first."""
    check_token_request(asked.services, asked.context)
    owner = owner_of(asked.request, asked.context.principal)
    if owner == asked.context.principal:
        return
    if not asked.access.may(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def hide_tokens(asked: Asked, response: DescribeDelegationTokenResponse) -> None:
    known = asked.services.image.delegation_tokens
    who = str(asked.context.principal)
    response.tokens = [
        described
        for described in response.tokens
        if who in known[described.token_id].principals
        or asked.access.may(
            AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, described.token_id
        )
        or asked.access.may(
            AclOperation.DESCRIBE_TOKENS, ResourceType.USER, known[described.token_id].owner
        )
    ]

"""Rights on delegation tokens. A client's own ones need none: those that it owns, asked for, or may
renew.
"""

from penstock.broker.request.authorization.rule import Asked
from penstock.broker.request.context import RequestContext
from penstock.broker.request.token_requests import check_token_request
from penstock.metadata.controller.delegation_tokens import owner_of
from penstock.model.error import ErrorCode, RequestError
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.security.delegation_token import DelegationToken


def create_token(asked: Asked) -> None:
    """A token for another owner needs a right. Whether the client may ask at all comes first."""
    check_token_request(asked.services, asked.context)
    owner = owner_of(asked.request, asked.context.principal)
    if owner == asked.context.principal:
        return
    if not asked.access.may(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def may_see(context: RequestContext, token: DelegationToken) -> bool:
    """Asked by the handler, before it computes what a client may not see anyway."""
    access, who = context.access, str(context.principal)
    if access is None or access.is_super or who in token.principals:
        return True
    if access.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner):
        return True
    return access.decide(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)

"""Delegation tokens are created, renewed, expired and removed (KIP-48, KIP-900).

Whether a client may ask at all is decided before (`broker/request/token_requests`). Owner and
renewers of a token may renew and expire it.
"""

from dataclasses import replace

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.image.delegation_tokens import token_record
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import (
    DECISION_RECORDS_MAX,
    DELEGATION_TOKEN_RENEWERS_MAX,
    DELEGATION_TOKENS_MAX,
    DELEGATION_TOKENS_OF_OWNER_MAX,
)
from penstock.model.settings.setting import LONG_MAX
from penstock.security.delegation_token import DelegationToken, token_hmac
from penstock.security.principal import USER, Principal
from penstock.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.wire.messages.metadata_records.delegation_token import RemoveDelegationTokenRecord
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NAME_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpiredTokens:
    """The controller itself asks, from time to time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredTokensRemoved:
    token_ids: tuple[str, ...]


def create_token(
    context: DecisionContext, request: CreateDelegationTokenRequest
) -> Decision[MetadataRecord, CreateDelegationTokenResponse]:
    secret = _secret(context)
    requester, owner = context.requester, owner_of(request, context.requester)
    check_principals(request)
    _check_room(context, owner)
    settings = context.settings.delegation_tokens
    lifetime_ms = settings.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _after(context, lifetime_ms)
    token = DelegationToken(
        token_id=id_text(context.fresh_ids[0]),
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(
            dict.fromkeys(
                str(Principal(renewer.principal_type, renewer.principal_name))
                for renewer in request.renewers
            )
        ),
        issued_ms=context.wall_ms,
        max_ms=max_ms,
        expires_ms=min(max_ms, _after(context, settings.delegation_token_expiry_time_ms)),
    )
    assert token.token_id not in context.state.delegation_tokens
    return Decision(
        records=(token_record(token),),
        reply=CreateDelegationTokenResponse(
            principal_type=owner.kind,
            principal_name=owner.name,
            token_requester_principal_type=requester.kind,
            token_requester_principal_name=requester.name,
            issue_timestamp_ms=token.issued_ms,
            expiry_timestamp_ms=token.expires_ms,
            max_timestamp_ms=token.max_ms,
            token_id=token.token_id,
            hmac=token_hmac(secret, token.token_id),
        ),
    )


def renew_token(
    context: DecisionContext, request: RenewDelegationTokenRequest
) -> Decision[MetadataRecord, RenewDelegationTokenResponse]:
    token = _found(context, request.hmac)
    if token.is_expired(context.wall_ms):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_renewer(context, token)
    period_ms = context.settings.delegation_tokens.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = replace(token, expires_ms=min(token.max_ms, _after(context, period_ms)))
    return Decision(
        records=(token_record(renewed),),
        reply=RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expires_ms),
    )


def expire_token(
    context: DecisionContext, request: ExpireDelegationTokenRequest
) -> Decision[MetadataRecord, ExpireDelegationTokenResponse]:
    token = _found(context, request.hmac)
    _check_renewer(context, token)
    if request.expiry_time_period_ms < 0:
        return Decision(
            records=(RemoveDelegationTokenRecord(token_id=token.token_id),),
            reply=ExpireDelegationTokenResponse(expiry_timestamp_ms=context.wall_ms),
        )
    if token.is_expired(context.wall_ms):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    until_ms = min(token.max_ms, _after(context, request.expiry_time_period_ms))
    return Decision(
        records=(token_record(replace(token, expires_ms=until_ms)),),
        reply=ExpireDelegationTokenResponse(expiry_timestamp_ms=until_ms),
    )


def remove_expired_tokens(
    context: DecisionContext,
) -> Decision[MetadataRecord, ExpiredTokensRemoved]:
    """At most as many as one decision may have; the others have their turn next time."""
    expired = [
        token.token_id
        for token in context.state.delegation_tokens.values()
        if token.is_expired(context.wall_ms)
    ][:DECISION_RECORDS_MAX]
    return Decision(
        records=tuple(RemoveDelegationTokenRecord(token_id=token_id) for token_id in expired),
        reply=ExpiredTokensRemoved(token_ids=tuple(expired)),
    )


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Whoever asks, unless another owner is named."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def check_principals(request: CreateDelegationTokenRequest) -> None:
    """Only users log in, so only they can own and renew tokens. RequestError for others."""
    named = [(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    if request.owner_principal_name:
        named.append((request.owner_principal_type or "", request.owner_principal_name))
    if any(kind != USER for kind, _ in named):
        raise RequestError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(request.renewers) > DELEGATION_TOKEN_RENEWERS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "The token has too many renewers.")
    if any(not 0 < len(name.encode()) <= NAME_BYTES_MAX for _, name in named):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"A name has 1 to {NAME_BYTES_MAX} bytes.")


def _secret(context: DecisionContext) -> str:
    secret = context.settings.delegation_tokens.secret
    if secret is None:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return secret


def _check_room(context: DecisionContext, owner: Principal) -> None:
    tokens, name = context.state.delegation_tokens, str(owner)
    if len(tokens) >= DELEGATION_TOKENS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "There are too many delegation tokens.")
    if sum(token.owner == name for token in tokens.values()) >= DELEGATION_TOKENS_OF_OWNER_MAX:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION,
            f"An owner has at most {DELEGATION_TOKENS_OF_OWNER_MAX} delegation tokens.",
        )


def _found(context: DecisionContext, token_mac: bytes) -> DelegationToken:
    token_id = context.state.token_ids.with_hmac(_secret(context), bytes(token_mac))
    if token_id is None:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return context.state.delegation_tokens[token_id]


def _check_renewer(context: DecisionContext, token: DelegationToken) -> None:
    if not token.is_renewed_by(str(context.requester)):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _after(context: DecisionContext, period_ms: int) -> int:
    return min(context.wall_ms + period_ms, LONG_MAX)

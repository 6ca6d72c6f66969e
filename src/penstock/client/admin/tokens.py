"""Delegation tokens of a cluster: created, described, renewed, expired (KIP-48)."""

from collections.abc import Iterable
from dataclasses import field

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.security.delegation_token import DelegationToken, token_password
from penstock.security.principal import Principal
from penstock.wire.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

BY_SETTING = -1  # as long as the settings of the cluster say
AT_ONCE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    """A token, and the secret by which clients log in with it."""

    token: DelegationToken
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        return token_password(self.hmac)


async def create_token(
    cluster: Cluster,
    *,
    owner: Principal | None = None,
    renewers: Iterable[Principal] = (),
    lifetime_ms: int = BY_SETTING,
) -> KnownToken:
    """For whoever is logged in, or for another owner."""
    allowed = list(renewers)
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else owner.kind,
        owner_principal_name=None if owner is None else owner.name,
        renewers=[
            CreatableRenewer(principal_type=one.kind, principal_name=one.name) for one in allowed
        ],
        max_lifetime_ms=lifetime_ms,
    )
    made = await cluster.ask_controller(request, CreateDelegationTokenResponse)
    _check(made.error_code, "token" if owner is None else f"token of {owner}")
    return KnownToken(
        token=DelegationToken(
            token_id=made.token_id,
            owner=str(Principal(made.principal_type, made.principal_name)),
            requester=str(
                Principal(made.token_requester_principal_type, made.token_requester_principal_name)
            ),
            renewers=tuple(map(str, allowed)),
            issued_ms=made.issue_timestamp_ms,
            max_ms=made.max_timestamp_ms,
            expires_ms=made.expiry_timestamp_ms,
        ),
        hmac=bytes(made.hmac),
    )


async def list_tokens(cluster: Cluster, owners: Iterable[Principal] = ()) -> list[KnownToken]:
    """All that the client may see, or those that concern some principals, by id."""
    named = [
        DescribeDelegationTokenOwner(principal_type=one.kind, principal_name=one.name)
        for one in owners
    ]
    request = DescribeDelegationTokenRequest(owners=named or None)
    reply = await cluster.ask_any(request, DescribeDelegationTokenResponse)
    _check(reply.error_code, "tokens")
    found = [
        KnownToken(
            token=DelegationToken(
                token_id=one.token_id,
                owner=str(Principal(one.principal_type, one.principal_name)),
                requester=str(
                    Principal(
                        one.token_requester_principal_type, one.token_requester_principal_name
                    )
                ),
                renewers=tuple(
                    str(Principal(renewer.principal_type, renewer.principal_name))
                    for renewer in one.renewers
                ),
                issued_ms=one.issue_timestamp,
                max_ms=one.max_timestamp,
                expires_ms=one.expiry_timestamp,
            ),
            hmac=bytes(one.hmac),
        )
        for one in reply.tokens
    ]
    return sorted(found, key=lambda one: one.token.token_id)


async def find_token(cluster: Cluster, token_id: str) -> KnownToken:
    """Refused if there is none of that id that the client may see."""
    for known in await list_tokens(cluster):
        if known.token.token_id == token_id:
            return known
    raise Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"token {token_id}", None)


async def renew_token(cluster: Cluster, known: KnownToken, *, period_ms: int = BY_SETTING) -> int:
    """When it expires now."""
    request = RenewDelegationTokenRequest(hmac=known.hmac, renew_period_ms=period_ms)
    reply = await cluster.ask_controller(request, RenewDelegationTokenResponse)
    _check(reply.error_code, f"token {known.token.token_id}")
    return reply.expiry_timestamp_ms


async def expire_token(cluster: Cluster, known: KnownToken, *, period_ms: int = AT_ONCE) -> int:
    """When it expires now."""
    request = ExpireDelegationTokenRequest(hmac=known.hmac, expiry_time_period_ms=period_ms)
    reply = await cluster.ask_controller(request, ExpireDelegationTokenResponse)
    _check(reply.error_code, f"token {known.token.token_id}")
    return reply.expiry_timestamp_ms


def _check(number: int, what: str) -> None:
    code = error_code(number)
    if code is not ErrorCode.NONE:
        raise Refused(code, what, None)

"""Delegation tokens (KIP-48): by one, a client logs in as its owner without the owner's password.

The client is given the token's id, which is its user name, and the token's HMAC, which in base64 is
its password. The HMAC is computed from the id and the cluster's secret whenever it is needed, and
stored nowhere. Principals are texts here, such as User:alice.
"""

import base64
import hmac
from collections.abc import Iterable

from penstock.model.lazy_dataclass import dataclass

DIGEST = "sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """Times are since 1970. The last of them cannot be renewed."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.max_ms, self.expires_ms) < now_ms

    def is_renewed_by(self, principal: str) -> bool:
        """Whether a principal may renew it, and expire it."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """Whom it concerns: they may see it without any right."""
        return (self.owner, self.requester, *self.renewers)


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), DIGEST)


def token_password(token_mac: bytes) -> str:
    """What a client logs in with."""
    return base64.b64encode(token_mac).decode()


def token_with_hmac(
    tokens: Iterable[DelegationToken], secret: str, token_mac: bytes
) -> DelegationToken | None:
    """A microsecond for each token that there is: renewals are rare."""
    for token in tokens:
        if hmac.compare_digest(token_hmac(secret, token.token_id), token_mac):
            return token
    return None

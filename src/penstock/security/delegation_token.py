"""Delegation tokens (KIP-48): by one, a client logs in as its owner without the owner's password.

The client is given the token's id, which is its user name, and the token's HMAC, which in base64 is
its password. The HMAC is computed from the id and the cluster's secret whenever it is needed, and
stored nowhere. Principals are texts here, such as User:alice.
"""

import base64
import hmac

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


class TokenIds:
    """Ids of tokens by their HMACs. Each HMAC is computed once, when one is looked up: whoever adds
    a token does not know the secret. Memory has them, as it has the secret; nothing stores them.
    """

    def __init__(self) -> None:
        self._secret = ""
        self._macs: dict[str, bytes] = {}  # by id
        self._ids: dict[bytes, str] = {}
        self._added: dict[str, None] = {}  # without an HMAC yet

    @property
    def all(self) -> frozenset[str]:
        return frozenset((*self._macs, *self._added))

    def with_hmac(self, secret: str, token_mac: bytes) -> str | None:
        if secret != self._secret:
            self._added = {**dict.fromkeys(self._macs), **self._added}
            self._secret, self._macs, self._ids = secret, {}, {}
        for token_id in self._added:
            mac = self._macs[token_id] = token_hmac(secret, token_id)
            self._ids[mac] = token_id
        self._added.clear()
        # The time of this tells nothing: texts are compared only when their keyed hashes are equal.
        return self._ids.get(token_mac)

    def add(self, token_id: str) -> None:
        """Also one that is there, when it is renewed."""
        if token_id not in self._macs:
            self._added[token_id] = None

    def remove(self, token_id: str) -> None:
        """Also one that is not there."""
        self._added.pop(token_id, None)
        mac = self._macs.pop(token_id, None)
        if mac is not None:
            del self._ids[mac]

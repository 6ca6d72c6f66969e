"""Credentials of delegation tokens for SCRAM: the token's id is the user, its HMAC the password.

They are computed when a token is first used with a mechanism, and kept. That takes some
milliseconds, so `find` only says what is to be computed (`exchange.Hashing`). The salt follows from
the HMAC, so that all nodes have the same and clients salt but once.
"""

import hmac
from collections.abc import Callable, Mapping
from functools import partial

from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import TOKEN_CREDENTIALS_KEPT_MAX
from penstock.model.sasl import ScramMechanism
from penstock.security.delegation_token import DelegationToken, token_hmac, token_password
from penstock.security.principal import Principal
from penstock.security.sasl.exchange import Hashing
from penstock.security.sasl.scram_credential import SALT_BYTES, ScramCredential, new_credential


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """What a token lets in."""

    owner: str  # the name of the user
    expires_ms: int  # since 1970
    credential: ScramCredential


class TokenCredentials:
    """`tokens` are those of the cluster as it is now."""

    def __init__(self, secret: str, tokens: Callable[[], Mapping[str, DelegationToken]]) -> None:
        self._secret = secret
        self._tokens = tokens
        self._kept: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def find(
        self, mechanism: ScramMechanism, token_id: str, *, now_ms: int
    ) -> TokenLogin | Hashing | None:
        """None for a token that does not exist, or counts no more."""
        token = self._tokens().get(token_id)
        if token is None or token.is_expired(now_ms):
            return None
        key = (token_id, mechanism)
        credential = self._kept.get(key)
        if credential is None:
            return Hashing(
                compute=partial(derive, self._secret, mechanism, token_id),
                keep=partial(self._keep, key),
            )
        self._keep(key, credential)
        return TokenLogin(
            owner=Principal.parse(token.owner).name,
            expires_ms=min(token.expires_ms, token.max_ms),
            credential=credential,
        )

    def _keep(self, key: tuple[str, ScramMechanism], credential: ScramCredential) -> None:
        """As the one that was used last; those that were used longest ago make room."""
        self._kept.pop(key, None)
        while len(self._kept) >= TOKEN_CREDENTIALS_KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = credential


def derive(secret: str, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
    """The slow step."""
    mac = token_hmac(secret, token_id)
    salt = hmac.digest(mac, b"salt", "sha256")[:SALT_BYTES]
    return new_credential(mechanism, token_password(mac), salt=salt)

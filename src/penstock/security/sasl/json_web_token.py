"""JSON web tokens (RFC 7519): whose signature counts, and what their claims must say.

    algorithms   asymmetric ones, listed here; the token's header chooses among them and no others
    keys         of a JWKS document; the token names one by its `kid`
    exp          required; nbf and iat, where given, must have passed; all with a clock skew
    iss, aud     as the settings expect; of several audiences one is enough

joserfc checks signatures. Claims are checked here, on the time that the caller gives. Nothing of a
token is ever quoted.
"""

import json
from collections.abc import Mapping

from joserfc import jws
from joserfc.jwk import KeySet

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass
from penstock.security.sasl.oauthbearer import Bearer, InvalidToken

# No secrets shared with the issuer, and not "none": a public key must not pass for a secret.
ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
]
JWKS_BYTES_MAX = 1024 * 1024
KEYS_MAX = 100


class UnknownKey(InvalidToken):
    """A token that names a key which is not among those known; perhaps it is new."""


class UnusableKeys(PenstockError):
    """A JWKS document that has no keys that could be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedClaims:
    """What a token must say of itself; None where that does not matter."""

    issuer: str | None
    audiences: tuple[str, ...]
    user_claim: str = "sub"
    clock_skew_ms: int = 30_000


class TokenKeys:
    """The keys of one JWKS document, and the tokens that they verify."""

    def __init__(self, document: bytes, expected: ExpectedClaims) -> None:
        self._expected = expected
        self._keys = read_keys(document)
        self._names = [key.kid for key in self._keys.keys]

    def verify(self, token: str, *, now_ms: int) -> Bearer:
        # Strangers write these bytes: whatever the library raises, it is the token that is wrong.
        try:
            named = jws.extract_compact(token.encode()).headers().get("kid")
        except Exception:
            raise InvalidToken("The token is unreadable") from None
        if named is not None and named not in self._names:
            raise UnknownKey("The token was signed with an unknown key")
        try:
            signed = jws.deserialize_compact(token.encode(), self._keys, algorithms=ALGORITHMS)
        except Exception:
            raise InvalidToken("The token's signature does not hold") from None
        try:
            claims = json.loads(signed.payload)
        except (ValueError, RecursionError):  # the latter where lists are nested very deep
            claims = None
        if not isinstance(claims, dict):
            raise InvalidToken("The token has no claims")
        return checked_claims(claims, self._expected, now_ms=now_ms)


def read_keys(document: bytes) -> KeySet:
    if len(document) > JWKS_BYTES_MAX:
        raise UnusableKeys("the JWKS document is too large")
    try:
        parsed = json.loads(document)
        found = [
            key
            for key in parsed["keys"]
            if key.get("kty") != "oct" and key.get("use", "sig") == "sig" and "d" not in key
        ]
        if not 0 < len(found) <= KEYS_MAX:
            raise UnusableKeys(f"the JWKS document has {len(found)} public keys for signatures")
        return KeySet.import_key_set({"keys": found})
    except UnusableKeys:
        raise
    except Exception as error:  # whatever the library raises for what an issuer wrote
        raise UnusableKeys(f"the JWKS document cannot be read: {type(error).__name__}") from None


def checked_claims(
    claims: Mapping[str, object], expected: ExpectedClaims, *, now_ms: int
) -> Bearer:
    """InvalidToken, with the claim that is wrong, or whom the token stands for."""
    skew_ms = expected.clock_skew_ms
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise InvalidToken("The token does not say when it expires")
    if expires_ms + skew_ms <= now_ms:
        raise InvalidToken("The token has expired")
    for name in ("nbf", "iat"):
        moment_ms = _time_ms(claims, name)
        if moment_ms is not None and moment_ms - skew_ms > now_ms:
            raise InvalidToken("The token is not valid yet")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise InvalidToken("The token is from another issuer")
    if expected.audiences:
        told = claims.get("aud")
        audiences = told if isinstance(told, list) else [told]
        if not any(audience in expected.audiences for audience in audiences):
            raise InvalidToken("The token is for another audience")
    user = claims.get(expected.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken("The token does not name a user")
    return Bearer(user=user, expires_ms=expires_ms)


def _time_ms(claims: Mapping[str, object], name: str) -> int | None:
    moment = claims.get(name)
    if moment is None:
        return None
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not 0 <= moment < 1e12:
        raise InvalidToken(f"The token's {name} is no time")
    return int(moment * 1000)

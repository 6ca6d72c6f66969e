"""OAUTHBEARER (RFC 7628): one token with a bearer token inside.

    n,[a=AUTHZID],^Aauth=Bearer TOKEN^A[KEY=VALUE^A...]^A        ^A is the byte 1

A token that is refused is answered with a few words of JSON; the client acknowledges them with ^A,
and only then the exchange ends.
"""

import re
from typing import Protocol

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass
from penstock.security.sasl.exchange import Accepted, Challenge, Rejected, Step

TOKEN_BYTES_MAX = 64 * 1024
FORM = re.compile(
    r"[ny],(?:a=(?P<authzid>(?:[^=,\0]|=2C|=3D)+))?,"
    "\x01(?P<pairs>(?:[A-Za-z]+=[\\x09\\x0a\\x0d\\x20-\\x7e]*\x01)+)\x01"
)
BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_.~+/A-Za-z0-9]+=*)")
REFUSAL = b'{"status":"invalid_token"}'


class InvalidToken(PenstockError):
    """A bearer token that does not count. The message does not quote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Whom a token stands for, and until when."""

    user: str
    expires_ms: int


class TokenVerifier(Protocol):
    def verify(self, token: str, *, now_ms: int) -> Bearer:
        """InvalidToken for one that does not count now."""


class OauthBearerServer:
    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier
        self._refusal: str | None = None

    def respond(self, token: bytes, *, now_ms: int) -> Step:
        if self._refusal is not None:
            return Rejected(reason=self._refusal)
        if len(token) > TOKEN_BYTES_MAX:
            return Rejected(reason="Token is too long")
        try:
            found = FORM.fullmatch(token.decode())
        except UnicodeDecodeError:
            found = None
        if found is None:
            return Rejected(reason="Unreadable message")
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
        bearer = BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            return Rejected(reason="No bearer token")
        try:
            known = self._verifier.verify(bearer["token"], now_ms=now_ms)
        except InvalidToken as error:
            self._refusal = str(error)
            return Challenge(token=REFUSAL)
        authorization = found["authzid"]
        if authorization is not None and authorization != known.user:
            return Rejected(reason="Authorization id differs from that of the token")
        return Accepted(user=known.user, expires_ms=known.expires_ms)


class OauthBearerClient:
    def __init__(self, token: str) -> None:
        self._token = token

    @property
    def is_complete(self) -> bool:
        return True  # the server has nothing to show

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, token: bytes) -> bytes | None:
        """A server says something only when it refuses; its verdict follows."""
        return b"\x01" if token else None

"""PLAIN (RFC 4616): one token with user and password, separated by NUL.

[authorization id] NUL user NUL password          UTF-8
"""

import hmac
from collections.abc import Mapping

from penstock.security.sasl.exchange import Accepted, Rejected, Step

NUL = "\0"
PARTS = 3
TOKEN_BYTES_MAX = 64 * 1024
INVALID = "Invalid username or password"


class PlainServer:
    """Takes the users and passwords of one listener."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def respond(self, token: bytes, *, now_ms: int) -> Step:
        if len(token) > TOKEN_BYTES_MAX:
            return Rejected(reason="Token is too long")
        try:
            parts = token.decode().split(NUL)
        except UnicodeDecodeError:
            return Rejected(reason="Token is not UTF-8")
        if len(parts) != PARTS:
            return Rejected(reason=f"Expected {PARTS} parts in the token, found {len(parts)}")
        authorization, user, password = parts
        if not user or not password:
            return Rejected(reason="Username or password is empty")
        known = self._passwords.get(user)
        # An unknown user takes as long as a wrong password.
        matches = hmac.compare_digest((known or password).encode(), password.encode())
        if known is None or not matches:
            return Rejected(reason=INVALID)
        if authorization not in ("", user):
            return Rejected(reason="Authorization id differs from the username")
        return Accepted(user=user)


class PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self._token = NUL.join(("", user, password)).encode()

    @property
    def is_complete(self) -> bool:
        return True  # the server has nothing to show

    def first(self) -> bytes:
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        return None

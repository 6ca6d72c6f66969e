"""What a mechanism is to whoever carries its tokens: tokens in, tokens and a verdict out.

A reason is for the log and for the client alike, so it never holds what was sent: neither names nor
passwords nor tokens.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass
from penstock.security.sasl.scram_credential import ScramCredential


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The exchange goes on: the other side is sent this token."""

    token: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The client is this user. The token is the last of the exchange."""

    user: str
    token: bytes = b""
    expires_ms: int | None = None  # since 1970: when what it showed is good no more
    by_token: bool = False  # whether it came by a delegation token of the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The client has not shown that it is anybody."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashing:
    """The answer needs a credential that takes some milliseconds to compute. `compute` may run in
    any thread; its result is given to `keep`, and then the same token to the exchange again.
    """

    compute: Callable[[], ScramCredential] = field(repr=False)  # both have the secret
    keep: Callable[[ScramCredential], None] = field(repr=False)


Step = Challenge | Accepted | Rejected | Hashing


class ServerExchange(Protocol):
    """The broker's side of one log-in."""

    def respond(self, token: bytes, *, now_ms: int) -> Step:
        """What the client's next token leads to. Called no more after a verdict. `now_ms` counts
        from 1970.
        """


class LoginRefused(PenstockError):
    """The client's side: the server's token shows that it does not know the password, or is none
    that a server would send.
    """


class ClientExchange(Protocol):
    """The client's side of one log-in."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has shown all that the mechanism asks of it: before that, its word for
        success counts for nothing.
        """

    def first(self) -> bytes:
        """The token to begin with."""

    def respond(self, token: bytes) -> bytes | None:
        """What to send next; None when nothing is left to send. LoginRefused when the server is not
        to be trusted.
        """

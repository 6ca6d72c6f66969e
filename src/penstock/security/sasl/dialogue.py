"""The order in which a listener hears SASL requests, and what each is answered.

    state        SaslHandshake                       token
    START        NONE: EXCHANGE                      ILLEGAL_SASL_STATE: FAILED
                 UNSUPPORTED_SASL_MECHANISM: FAILED
    EXCHANGE     ILLEGAL_SASL_STATE: FAILED          the mechanism's: EXCHANGE, DONE or FAILED
    DONE, FAILED                    nothing is heard any more

Whoever carries the requests closes the connection after FAILED, once the answer has been sent. A
dialogue is one log-in; a client that authenticates again (KIP-368) begins another, with the same
mechanism and as the same user.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto

from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.model.sasl import Mechanism
from penstock.security.principal import USER, Principal
from penstock.security.sasl.exchange import (
    Accepted,
    Challenge,
    Hashing,
    Rejected,
    ServerExchange,
)

FAILED_MESSAGES = {
    Mechanism.PLAIN: "Authentication failed: Invalid username or password",
}


class DialogueState(Enum):
    START = auto()
    EXCHANGE = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeAnswer:
    code: ErrorCode
    mechanisms: tuple[Mechanism, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A client that has shown who it is."""

    principal: Principal
    mechanism: Mechanism
    expires_ms: int | None  # since 1970: when what it showed is good no more


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """`login` with the last token of a success; `reason` is for the log."""

    code: ErrorCode
    token: bytes = b""
    message: str | None = None
    login: Login | None = None
    reason: str | None = None


class Dialogue:
    """`exchanges` begins a log-in by each mechanism that the listener takes. `before` is who the
    client was so far, if it authenticates again.
    """

    def __init__(
        self,
        exchanges: Mapping[Mechanism, Callable[[], ServerExchange]],
        *,
        before: Login | None = None,
    ) -> None:
        self.state = DialogueState.START
        self.mechanism: Mechanism | None = None
        self._exchanges = exchanges
        self._before = before
        self._exchange: ServerExchange | None = None

    @property
    def is_over(self) -> bool:
        return self.state in (DialogueState.DONE, DialogueState.FAILED)

    def handshake(self, mechanism: str) -> HandshakeAnswer:
        assert not self.is_over
        offered = tuple(self._exchanges)
        if self.state is not DialogueState.START:
            self.state = DialogueState.FAILED
            return HandshakeAnswer(code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=offered)
        if self._before is not None:
            offered = tuple(one for one in offered if one is self._before.mechanism)
        chosen = next((one for one in offered if one.value == mechanism), None)
        if chosen is None:
            self.state = DialogueState.FAILED
            return HandshakeAnswer(code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self.mechanism = chosen
        self._exchange = self._exchanges[chosen]()
        self.state = DialogueState.EXCHANGE
        return HandshakeAnswer(code=ErrorCode.NONE, mechanisms=offered)

    def token(self, token: bytes, *, now_ms: int) -> TokenAnswer | Hashing:
        """`now_ms` counts from 1970. After a `Hashing` the same token is given again."""
        assert not self.is_over
        if self._exchange is None or self.mechanism is None:
            self.state = DialogueState.FAILED
            return TokenAnswer(
                code=ErrorCode.ILLEGAL_SASL_STATE,
                message="SaslHandshake must come before SaslAuthenticate",
                reason="no handshake",
            )
        match self._exchange.respond(token, now_ms=now_ms):
            case Challenge(token=challenge):
                return TokenAnswer(code=ErrorCode.NONE, token=challenge)
            case Hashing() as hashing:
                return hashing
            case Rejected(reason=reason):
                return self._failed(reason)
            case Accepted() as accepted:
                return self._accepted(accepted, self.mechanism)

    def _accepted(self, accepted: Accepted, mechanism: Mechanism) -> TokenAnswer:
        principal = Principal(USER, accepted.user, accepted.by_token)
        if self._before is not None and not _is_same(principal, self._before.principal):
            return self._failed("the principal changed when the client authenticated again")
        self.state = DialogueState.DONE
        return TokenAnswer(
            code=ErrorCode.NONE,
            token=accepted.token,
            login=Login(principal=principal, mechanism=mechanism, expires_ms=accepted.expires_ms),
        )

    def _failed(self, reason: str) -> TokenAnswer:
        assert self.mechanism is not None
        self.state = DialogueState.FAILED
        return TokenAnswer(
            code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            message=FAILED_MESSAGES.get(
                self.mechanism,
                "Authentication failed during authentication due to invalid credentials with SASL"
                f" mechanism {self.mechanism}",
            ),
            reason=reason,
        )


def _is_same(one: Principal, other: Principal) -> bool:
    """Also in how it came in: a token does not stand for a password later."""
    return one == other and one.token_authenticated == other.token_authenticated


def session_lifetime_ms(
    *, expires_ms: int | None, reauthentication_ms_max: int, now_ms: int
) -> int | None:
    """How long a session lasts before the client must authenticate again; None: it does not end.

    `reauthentication_ms_max` is `connections.max.reauth.ms`, 0 for none; what the client showed may
    end sooner. `now_ms` counts from 1970.
    """
    bounds = [max(expires_ms - now_ms, 0)] if expires_ms is not None else []
    if reauthentication_ms_max > 0:
        bounds.append(reauthentication_ms_max)
    return min(bounds, default=None)

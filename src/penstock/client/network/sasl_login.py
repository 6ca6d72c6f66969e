"""How a client logs in by SASL: whom it says it is, and how it shows it.

A `SaslLogin` is shared by all connections of a client; each connection begins an exchange of its
own with it (`log_in`). What is secret in it is not shown. `login_kinds` makes them: a client that
needs none does not import the mechanisms.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from penstock.client.network.connection import Connection, Ready, Reply, SendAgain
from penstock.client.network.errors import AuthenticationFailed, error_code
from penstock.model.error import ErrorCode
from penstock.model.sasl import Mechanism
from penstock.security.sasl.exchange import ClientExchange, LoginRefused
from penstock.wire.definition import Message
from penstock.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.world.errors import NetworkError
from penstock.world.ports import Buffer, Stream

AnyReply = TypeVar("AnyReply", bound=Message)
TOKENS_MAX = 8  # of one exchange: a server that goes on and on is none
HANDSHAKE_VERSION = 1  # version 0 has no form for errors


class SaslLogin:
    """`begin` makes the client's side of one exchange."""

    def __init__(self, mechanism: Mechanism, begin: Callable[[], ClientExchange]) -> None:
        self.mechanism = mechanism
        self.begin = begin

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism})"


async def log_in(stream: Stream, connection: Connection, login: SaslLogin) -> int | None:
    """Logs in over a connection that knows the broker's versions. How long the session lasts, in
    milliseconds; None: as long as the connection. AuthenticationFailed when the broker refuses, or
    is none that knows the password.
    """
    agreed = await _ask(
        stream,
        connection,
        SaslHandshakeRequest(mechanism=login.mechanism.value),
        SaslHandshakeResponse,
        version=HANDSHAKE_VERSION,
    )
    if agreed.error_code != ErrorCode.NONE:
        offered = ", ".join(agreed.mechanisms) or "none"
        raise AuthenticationFailed(
            error_code(agreed.error_code),
            f"{stream.peer}: the listener does not take {login.mechanism}; it offers {offered}",
        )
    exchange = login.begin()
    token: bytes | None = exchange.first()
    version = connection.version_for(SaslAuthenticateRequest)
    for _ in range(TOKENS_MAX):
        assert token is not None
        reply = await _ask(
            stream,
            connection,
            SaslAuthenticateRequest(auth_bytes=token),
            SaslAuthenticateResponse,
            version=version,
        )
        if reply.error_code != ErrorCode.NONE:
            code = error_code(reply.error_code)
            said = reply.error_message or "the log-in was refused"
            raise AuthenticationFailed(code, f"{stream.peer}: {said}")
        try:
            token = exchange.respond(bytes(reply.auth_bytes))
        except LoginRefused as error:
            raise AuthenticationFailed(
                ErrorCode.SASL_AUTHENTICATION_FAILED, f"{stream.peer}: {error}"
            ) from error
        if token is None and exchange.is_complete:
            return reply.session_lifetime_ms or None
        if token is None:
            break
    raise AuthenticationFailed(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"{stream.peer}: the log-in did not come to its end"
    )


async def _ask(
    stream: Stream,
    connection: Connection,
    request: Message,
    reply_type: type[AnyReply],
    *,
    version: int,
) -> AnyReply:
    _, parts = connection.send(request, version=version, reply_type=reply_type)
    await stream.send(cast("list[Buffer]", parts))
    while True:
        count = await stream.receive_into(connection.receive_view())
        if count == 0:
            raise NetworkError(f"{stream.peer}: the broker closed the connection at the log-in")
        for event in connection.received(count):
            match event:
                case Reply(message=message):
                    assert isinstance(message, reply_type)
                    return message
                case SendAgain() | Ready():
                    raise AssertionError("the handshake is done")

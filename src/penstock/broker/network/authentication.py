"""Log-ins by SASL: what a listener hears before it takes any other request.

    ApiVersions          any number, like after a log-in
    SaslHandshake        names the mechanism; see `security/sasl/dialogue`
    SaslAuthenticate     tokens, after a handshake of version 1
    bare tokens          frames without a header, after a handshake of version 0

Anything else closes the connection. Frames are small, few and in time: `limit.AUTHENTICATION_*` and
`sasl.server.max.receive.size`; all clients that are not logged in share one budget of memory for
what is large, which is not that of the others. Bytes are read up to a frame's end and no further,
so that nothing is left over for whoever serves the connection afterwards. The reply to a failure is
held back for `connection.failed.authentication.delay.ms`. Start at `Authentication.log_in`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from penstock.broker.network.budget import Budget
from penstock.broker.network.dispatch import Dispatch
from penstock.broker.network.failed_logins import FailedLogins
from penstock.broker.network.hashing import Hashes
from penstock.broker.network.identity import ConnectionIdentity
from penstock.broker.network.reauthentication import Reauthentication
from penstock.model import limit
from penstock.model.error import CloseConnection, ErrorCode
from penstock.model.sasl import Mechanism
from penstock.security.sasl.dialogue import Dialogue, Login, TokenAnswer, session_lifetime_ms
from penstock.security.sasl.exchange import ServerExchange
from penstock.wire.api import ApiKey
from penstock.wire.codec import decode
from penstock.wire.definition import Message
from penstock.wire.errors import FrameTooLarge, MalformedMessage
from penstock.wire.header import RequestHeader, decode_request_header, encode_response
from penstock.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Buffer, Clock, Stream

AnyRequest = TypeVar("AnyRequest", bound=Message)
SIZE_BYTES = limit.FRAME_HEADER_BYTES
BARE_TOKENS_VERSION = 0  # of SaslHandshake


class Authentication:
    """The log-ins of one listener."""

    def __init__(
        self,
        *,
        listener: str,
        exchanges: Mapping[Mechanism, Callable[[], ServerExchange]],
        reauthentication_ms_max: Mapping[Mechanism, int],
        frame_bytes_max: int,
        failure_delay_ms: int,
        clock: Clock,
    ) -> None:
        self.listener = listener
        self.exchanges = exchanges
        self.failure_delay_ms = failure_delay_ms
        self.clock = clock
        self.hashes = Hashes(clock)
        self.failures = FailedLogins(listener=listener, clock=clock)
        self._reauthentication_ms_max = reauthentication_ms_max
        self._frame_bytes_max = frame_bytes_max

    async def log_in(
        self, stream: Stream, dispatch: Dispatch, budget: Budget
    ) -> ConnectionIdentity | None:
        """Who the client is; None when it has not shown that, and has been told so."""
        dialogue = Dialogue(self.exchanges)
        reason: str | None = None
        try:
            async with asyncio.timeout(limit.AUTHENTICATION_MS_MAX / 1000):
                return await self._converse(stream, dispatch, budget, dialogue)
        except TimeoutError:
            reason = f"no log-in within {limit.AUTHENTICATION_MS_MAX} ms"
        except (CloseConnection, MalformedMessage) as error:
            reason = str(error)
        except NetworkError:
            return None  # the peer has gone; there is nobody to tell
        self.failures.note(stream.peer, mechanism=dialogue.mechanism, reason=reason)
        return None

    def session_of(self, login: Login) -> int | None:
        """How long a log-in counts, from now on; None: as long as its connection."""
        return session_lifetime_ms(
            expires_ms=login.expires_ms,
            reauthentication_ms_max=self._reauthentication_ms_max.get(login.mechanism, 0),
            now_ms=self.clock.now_ms(),
        )

    async def _converse(
        self, stream: Stream, dispatch: Dispatch, budget: Budget, dialogue: Dialogue
    ) -> ConnectionIdentity | None:
        bare = False  # whether tokens come without headers
        for _ in range(limit.AUTHENTICATION_REQUESTS_MAX):
            frame = await self._read_frame(stream, budget)
            if frame is None:
                return None
            if bare:
                answer = await self.hashes.answer(dialogue, frame)
                if answer.code != ErrorCode.NONE:
                    # There is no form for an error: the client learns it by the closed connection.
                    await self._hold_back(stream, dialogue, answer)
                    return None
                await stream.send([len(answer.token).to_bytes(SIZE_BYTES, "big"), answer.token])
                if answer.login is not None:
                    return self._identity(answer.login, self.session_of(answer.login), stream.peer)
                continue
            header, position = decode_request_header(memoryview(frame))
            if header.api_key == ApiKey.API_VERSIONS:
                parts = dispatch.answer(
                    memoryview(frame),
                    header.api_key,
                    peer=stream.peer,
                    received_ms=self.clock.monotonic_ms(),
                )
                assert isinstance(parts, list), "ApiVersions is answered at once"
                count_request(dispatch, header, ErrorCode.NONE)
                await stream.send(cast("list[Buffer]", parts))
            elif header.api_key == ApiKey.SASL_HANDSHAKE:
                handshake = read_request(SaslHandshakeRequest, header, frame, position)
                agreed = dialogue.handshake(handshake.mechanism)
                count_request(dispatch, header, agreed.code)
                await send_reply(
                    stream,
                    header,
                    SaslHandshakeResponse(
                        error_code=agreed.code,
                        mechanisms=[mechanism.value for mechanism in agreed.mechanisms],
                    ),
                )
                if agreed.code != ErrorCode.NONE:
                    raise CloseConnection(f"handshake refused with {agreed.code.name}")
                bare = header.api_version == BARE_TOKENS_VERSION
            elif header.api_key == ApiKey.SASL_AUTHENTICATE:
                request = read_request(SaslAuthenticateRequest, header, frame, position)
                answer = await self.hashes.answer(dialogue, bytes(request.auth_bytes))
                count_request(dispatch, header, answer.code)
                if answer.code != ErrorCode.NONE:
                    await self._hold_back(stream, dialogue, answer)
                lifetime_ms = None if answer.login is None else self.session_of(answer.login)
                await send_reply(stream, header, authenticate_reply(answer, lifetime_ms))
                if answer.code != ErrorCode.NONE:
                    return None
                if answer.login is not None:
                    return self._identity(answer.login, lifetime_ms, stream.peer)
            else:
                raise CloseConnection(f"API key {header.api_key} before a log-in")
        raise CloseConnection("too many requests before a log-in")

    async def _hold_back(self, stream: Stream, dialogue: Dialogue, answer: TokenAnswer) -> None:
        reason = answer.reason or answer.code.name
        self.failures.note(stream.peer, mechanism=dialogue.mechanism, reason=reason)
        await asyncio.sleep(self.failure_delay_ms / 1000)

    def _identity(self, login: Login, lifetime_ms: int | None, peer: Address) -> ConnectionIdentity:
        session = None
        if lifetime_ms is not None:
            session = Reauthentication(
                login=login,
                exchanges=self.exchanges,
                session_of=self.session_of,
                hashes=self.hashes,
                failures=self.failures,
                failure_delay_ms=self.failure_delay_ms,
                clock=self.clock,
                lifetime_ms=lifetime_ms,
                peer=peer,
            )
        return ConnectionIdentity(principal=login.principal, session=session)

    async def _read_frame(self, stream: Stream, budget: Budget) -> bytes | None:
        """The next frame, without its size; None when the peer has closed."""
        head = bytearray(SIZE_BYTES)
        if not await read_whole(stream, memoryview(head)):
            return None
        size = int.from_bytes(head, "big", signed=True)
        if size < 0:
            raise MalformedMessage(f"a frame of {size} bytes")
        if size > self._frame_bytes_max:
            raise FrameTooLarge(size=size, size_max=self._frame_bytes_max)
        # The budget counts what has come, not what was announced, and not a frame's first bytes,
        # with which real log-ins do: those who announce much and say little stand in nobody's way.
        frame = bytearray(min(size, limit.AUTHENTICATION_BYTES_UNCOUNTED))
        if not await read_whole(stream, memoryview(frame)):
            return None
        counted = 0
        try:
            while len(frame) < size:
                piece = bytearray(min(size - len(frame), limit.AUTHENTICATION_PIECE_BYTES))
                await budget.take(stream, len(piece))
                counted += len(piece)
                if not await read_whole(stream, memoryview(piece)):
                    return None
                frame += piece
            return bytes(frame)
        finally:
            if counted:
                budget.give(stream, counted, all_given=True)


def read_request(
    request: type[AnyRequest], header: RequestHeader, frame: bytes, position: int
) -> AnyRequest:
    """CloseConnection for a version that is not served, or what is no such request."""
    if header.api_version not in request.VERSIONS:
        raise CloseConnection(f"version {header.api_version} of API key {header.api_key}")
    try:
        return decode(request, header.api_version, memoryview(frame), position)
    except MalformedMessage as error:
        raise CloseConnection(f"malformed request: {error}") from error


def authenticate_reply(answer: TokenAnswer, lifetime_ms: int | None) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=answer.code,
        error_message=answer.message,
        auth_bytes=answer.token,
        session_lifetime_ms=lifetime_ms or 0,
    )


def count_request(dispatch: Dispatch, header: RequestHeader, code: ErrorCode) -> None:
    """How long it took is not measured: it may be held back on purpose."""
    if dispatch.stats is not None:
        dispatch.stats.counts[header.api_key].answered += 1
        dispatch.stats.note_error(header.api_key, code)


async def send_reply(stream: Stream, header: RequestHeader, reply: Message) -> None:
    parts = encode_response(header.correlation_id, reply, header.api_version)
    await stream.send(cast("list[Buffer]", parts))


async def read_whole(stream: Stream, view: memoryview) -> bool:
    """Fills the view; False when the peer closes before."""
    while view:
        count = await stream.receive_into(view)
        if count == 0:
            return False
        view = view[count:]
    return True

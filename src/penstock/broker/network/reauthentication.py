"""A session that ends: its client authenticates again on the same connection, or is closed
(KIP-368).

    SaslHandshake, SaslAuthenticate   a log-in by the same mechanism, as the same user
    any other request                 answered as before, until the session has ended

A log-in that fails is answered; the next request closes the connection, whatever it is. So does one
of SASL that comes before the last one was answered, which no client has a reason for.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from penstock.broker.network.failed_logins import FailedLogins
from penstock.broker.network.hashing import Hashes
from penstock.broker.request.pending_reply import Parts
from penstock.model.error import CloseConnection, ErrorCode
from penstock.model.sasl import Mechanism
from penstock.security.sasl.dialogue import Dialogue, Login, TokenAnswer
from penstock.security.sasl.exchange import Hashing, ServerExchange
from penstock.wire.api import ApiKey
from penstock.wire.codec import decode
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import RequestHeader, decode_request_header, encode_response
from penstock.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.world.ports import Address, Clock

HANDSHAKE_VERSION_MIN = 1  # bare tokens could not be told from requests
REQUESTS: Mapping[int, type[Message]] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest,
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest,
}
# As in Apache Kafka: whoever asks sooner than this is not heard.
INTERVAL_MS_MIN = 1000


class Reauthentication:
    """An `EndingSession`."""

    def __init__(
        self,
        *,
        login: Login,
        exchanges: Mapping[Mechanism, Callable[[], ServerExchange]],
        session_of: Callable[[Login], int | None],
        hashes: Hashes,
        failures: FailedLogins,
        failure_delay_ms: int,
        clock: Clock,
        lifetime_ms: int,
        peer: Address,
    ) -> None:
        self._login = login
        self._exchanges = exchanges
        self._session_of = session_of
        self._hashes = hashes
        self._failures = failures
        self._failure_delay_ms = failure_delay_ms
        self._clock = clock
        self._peer = peer
        self._dialogue: Dialogue | None = None
        self._is_hashing = False  # for a token whose reply waits for that
        self._has_failed = False
        self._began_ms = clock.monotonic_ms()
        self._ends_ms: int | None = self._began_ms + lifetime_ms

    def answer(
        self, frame: memoryview, received_ms: int
    ) -> Parts | Coroutine[Any, Any, Parts] | None:
        """See `EndingSession`."""
        if self._has_failed:
            raise CloseConnection("a request after a failed log-in")
        key = int.from_bytes(frame[:2], "big") if len(frame) > 1 else -1
        if key not in REQUESTS:
            if self._ends_ms is not None and received_ms >= self._ends_ms:
                raise CloseConnection("the session has ended, and the client did not log in again")
            return None
        if self._is_hashing:
            raise CloseConnection("a request of SASL before the last one was answered")
        header, position = decode_request_header(frame)
        if header.api_version not in REQUESTS[key].VERSIONS:
            raise CloseConnection(f"version {header.api_version} of API key {key}")
        try:
            request = decode(REQUESTS[key], header.api_version, frame, position)
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request: {error}") from error
        if isinstance(request, SaslHandshakeRequest):
            reply: Message = self._handshake(request, header.api_version, received_ms)
        else:
            assert isinstance(request, SaslAuthenticateRequest)
            if self._dialogue is None:
                reply = SaslAuthenticateResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE,
                    error_message="SaslHandshake must come before SaslAuthenticate",
                )
            else:
                token = bytes(request.auth_bytes)
                answer = self._dialogue.token(token, now_ms=self._clock.now_ms())
                if isinstance(answer, Hashing):
                    self._is_hashing = True
                    return self._hashed(self._dialogue, token, header, received_ms)
                reply = self._reply(answer, received_ms)
        parts = encode_response(header.correlation_id, reply, header.api_version)
        return self._held_back(parts) if self._has_failed else parts

    async def _hashed(
        self, dialogue: Dialogue, token: bytes, header: RequestHeader, received_ms: int
    ) -> Parts:
        answer = await self._hashes.answer(dialogue, token)
        self._is_hashing = False
        reply = self._reply(answer, received_ms)
        parts = encode_response(header.correlation_id, reply, header.api_version)
        return await self._held_back(parts) if self._has_failed else parts

    async def _held_back(self, parts: Parts) -> Parts:
        await asyncio.sleep(self._failure_delay_ms / 1000)
        return parts

    def _handshake(
        self, request: SaslHandshakeRequest, version: int, received_ms: int
    ) -> SaslHandshakeResponse:
        early = received_ms - self._began_ms < INTERVAL_MS_MIN
        if self._dialogue is not None or version < HANDSHAKE_VERSION_MIN or early:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        self._dialogue = Dialogue(self._exchanges, before=self._login)
        agreed = self._dialogue.handshake(request.mechanism)
        if agreed.code != ErrorCode.NONE:
            self._fail(f"handshake refused with {agreed.code.name}")
        return SaslHandshakeResponse(
            error_code=agreed.code,
            mechanisms=[mechanism.value for mechanism in agreed.mechanisms],
        )

    def _reply(self, answer: TokenAnswer, received_ms: int) -> SaslAuthenticateResponse:
        lifetime_ms = None
        if answer.login is not None:
            self._dialogue, self._login = None, answer.login
            lifetime_ms = self._session_of(answer.login)
            self._began_ms = received_ms
            self._ends_ms = None if lifetime_ms is None else received_ms + lifetime_ms
        elif answer.code != ErrorCode.NONE:
            self._fail(answer.reason or answer.code.name)
        return SaslAuthenticateResponse(
            error_code=answer.code,
            error_message=answer.message,
            auth_bytes=answer.token,
            session_lifetime_ms=lifetime_ms or 0,
        )

    def _fail(self, reason: str) -> None:
        self._has_failed = True
        self._failures.note(self._peer, mechanism=self._login.mechanism, reason=reason)

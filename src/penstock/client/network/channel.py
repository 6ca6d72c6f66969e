"""A live connection to one broker: many requests at once, replies to whoever asked.

`post` queues a request and returns at once, so that the order of calls is the order on the wire;
a task writes, another reads. When either fails, everything in flight fails with it and the
channel is closed for good: whoever needs the broker again opens another.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from penstock.client.network.connection import Connection, Features, Ready, Reply, SendAgain
from penstock.client.network.errors import BrokenProtocol, ClientError, ConnectionLost, TimedOut
from penstock.client.network.sasl_login import SaslLogin, log_in
from penstock.model.limit import REQUESTS_IN_FLIGHT_MAX
from penstock.wire.api import VersionRange
from penstock.wire.codec import Part
from penstock.wire.definition import Message
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Buffer, Network, Stream
from penstock.world.tasks import TaskGroup

AnyReply = TypeVar("AnyReply", bound=Message)
# Of a session that ends: after so much of it no more requests are sent on its connection.
SESSION_USED_MAX = 0.85


class Channel:
    def __init__(self, stream: Stream, connection: Connection, address: Address) -> None:
        assert connection.versions is not None
        self.address = address
        self._stream = stream
        self._connection = connection
        self._awaiting: dict[int, asyncio.Future[Message]] = {}
        self._outgoing: list[Part] = []
        self._unsent: list[asyncio.Future[None]] = []  # of requests without a reply, in order
        self._something_to_send = asyncio.Event()
        self._error: ClientError | None = None
        self._ended = asyncio.Event()
        self._is_retired = False
        self._retirement: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether new requests may be sent here."""
        return self._error is None and not self._is_retired

    @property
    def is_retired(self) -> bool:
        """Whether its session is about to end: it closes by itself after the last reply."""
        return self._is_retired and self._error is None

    async def ended(self) -> None:
        await self._ended.wait()

    @property
    def in_flight(self) -> int:
        return self._connection.in_flight

    @property
    def features(self) -> Features:
        return self._connection.features

    @property
    def versions(self) -> Mapping[int, VersionRange]:
        """What the broker serves, by the number of the API."""
        assert self._connection.versions is not None
        return self._connection.versions

    def version_for(self, request: type[Message], *, at_most: int | None = None) -> int:
        return self._connection.version_for(request, at_most=at_most)

    def post(
        self, request: Message, reply_type: type[AnyReply], *, version: int | None = None
    ) -> asyncio.Future[AnyReply]:
        """Sends a request; the future is its reply, or a ClientError."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self._error is not None:
            future.set_exception(self._error)
        elif self.in_flight >= REQUESTS_IN_FLIGHT_MAX:
            future.set_exception(ClientError(f"{self.address}: too many requests in flight"))
        else:
            chosen = self.version_for(type(request)) if version is None else version
            correlation_id, parts = self._connection.send(
                request, version=chosen, reply_type=reply_type
            )
            self._awaiting[correlation_id] = future
            self._enqueue(parts)
        # The connection decodes into `reply_type`, so that is what the future will hold.
        return cast("asyncio.Future[AnyReply]", future)

    def post_unanswered(self, request: Message, *, version: int) -> asyncio.Future[None]:
        """Sends a request that has no reply: a produce with acks=0. The future is done when the
        stream has taken all of it, or a ClientError.
        """
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._error is not None:
            sent.set_exception(self._error)
        else:
            _, parts = self._connection.send(request, version=version, reply_type=None)
            self._unsent.append(sent)
            self._enqueue(parts)
        return sent

    async def ask(
        self,
        request: Message,
        reply_type: type[AnyReply],
        *,
        timeout_ms: int,
        version: int | None = None,
    ) -> AnyReply:
        """Sends a request and waits. Replies come in order, so one that is late makes all others
        late: closed, also when whoever asked has stopped waiting.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        answer = self.post(request, reply_type, version=version)
        try:
            async with asyncio.timeout_at(deadline_s):
                return await answer
        except TimeoutError as error:
            late = self._late(timeout_ms)
            self.close(late)
            raise late from error
        except asyncio.CancelledError:
            loop.call_at(deadline_s, self._close_unless_answered, answer, timeout_ms)
            raise

    def _close_unless_answered(self, answer: asyncio.Future[Any], timeout_ms: int) -> None:
        if any(one is answer for one in self._awaiting.values()):
            self.close(self._late(timeout_ms))

    def _late(self, timeout_ms: int) -> TimedOut:
        return TimedOut(f"{self.address}: no answer within {timeout_ms} ms")

    def close(self, error: ClientError | None = None) -> None:
        """At once; what is in flight fails. Closing twice is harmless."""
        if self._error is not None:
            return
        self._error = error or ConnectionLost(f"{self.address}: closed")
        self._stream.close()
        self._ended.set()
        if self._retirement is not None:
            self._retirement.cancel()
        self._something_to_send.set()
        for future in self._awaiting.values():
            if not future.done():
                future.set_exception(self._error)
        for sent in self._unsent:
            if not sent.done():
                sent.set_exception(self._error)
        self._awaiting.clear()
        self._unsent.clear()

    def retire_after(self, lifetime_ms: int) -> None:
        """The session lasts so long from now on: another channel takes over before its end."""
        self._retirement = asyncio.get_running_loop().call_later(
            lifetime_ms * SESSION_USED_MAX / 1000, self._retire
        )

    def _retire(self) -> None:
        self._is_retired = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        idle = self.in_flight == 0 and not self._outgoing and not self._unsent
        if self._is_retired and idle:
            self.close()

    async def read(self) -> None:
        """Hands out replies until the channel is closed."""
        try:
            while self._error is None:
                count = await self._stream.receive_into(self._connection.receive_view())
                if count == 0:
                    raise NetworkError(f"{self.address}: the broker closed the connection")
                for event in self._connection.received(count):
                    assert isinstance(event, Reply)
                    future = self._awaiting.pop(event.correlation_id, None)
                    if future is not None and not future.done():
                        future.set_result(event.message)
                self._close_if_done()
        except NetworkError as error:
            self.close(ConnectionLost(str(error)))
        except BrokenProtocol as error:
            self.close(error)
        finally:
            self.close()

    async def write(self) -> None:
        """Sends what was posted until the channel is closed; what gathers meanwhile leaves
        together.
        """
        try:
            while True:
                await self._something_to_send.wait()
                if self._error is not None:
                    return
                self._something_to_send.clear()
                # A client sends buffers only: splices are for files, and it has none.
                buffers, self._outgoing = cast("list[Buffer]", self._outgoing), []
                unsent_count = len(self._unsent)
                await self._stream.send(buffers)
                self._tell_sent(unsent_count)
                self._close_if_done()
        except NetworkError as error:
            self.close(ConnectionLost(str(error)))
        finally:
            self.close()

    def _tell_sent(self, count: int) -> None:
        """None of them is left if the channel was closed meanwhile: they have failed with it."""
        sent, self._unsent = self._unsent[:count], self._unsent[count:]
        for future in sent:
            if not future.done():
                future.set_result(None)

    def _enqueue(self, parts: list[Part]) -> None:
        self._outgoing.extend(parts)
        self._something_to_send.set()


async def open_channel(
    network: Network,
    address: Address,
    *,
    client_id: str,
    tasks: TaskGroup,
    timeout_ms: int,
    login: SaslLogin | None = None,
) -> Channel:
    """Connects, shakes hands and logs in; the channel's tasks belong to `tasks`. ClientError when
    that fails.
    """
    connection = Connection(client_id=client_id)
    stream, lifetime_ms = await shake_hands(
        network, address, connection, timeout_ms=timeout_ms, login=login
    )
    channel = Channel(stream, connection, address)
    if lifetime_ms is not None:
        channel.retire_after(lifetime_ms)
    tasks.start(channel.read(), name=f"read {address}")
    tasks.start(channel.write(), name=f"write {address}")
    return channel


async def shake_hands(
    network: Network,
    address: Address,
    connection: Connection,
    *,
    timeout_ms: int,
    login: SaslLogin | None = None,
) -> tuple[Stream, int | None]:
    """Connects, asks which versions are served, and logs in. The stream, and how long its session
    lasts; None: as long as the stream. ClientError when that fails.
    """
    stream: Stream | None = None
    lifetime_ms: int | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            stream = await network.connect(address)
            await _shake_hands(stream, connection)
            if login is not None:
                lifetime_ms = await log_in(stream, connection, login)
    except (NetworkError, TimeoutError, ClientError) as error:
        if stream is not None:
            stream.close()
        if isinstance(error, ClientError):
            raise
        reason = str(error) or f"{address}: no connection within {timeout_ms} ms"
        raise ConnectionLost(reason) from error
    except BaseException:
        if stream is not None:
            stream.close()
        raise
    return stream, lifetime_ms


async def _shake_hands(stream: Stream, connection: Connection) -> None:
    await stream.send(cast("list[Buffer]", connection.hello()))
    while True:
        count = await stream.receive_into(connection.receive_view())
        if count == 0:
            raise NetworkError(f"{stream.peer}: the broker closed the connection")
        for event in connection.received(count):
            match event:
                case SendAgain(buffers):
                    await stream.send(cast("list[Buffer]", buffers))
                case Ready():
                    return
                case Reply():
                    raise AssertionError("nothing but the handshake was sent")

"""A live connection whose replies are read where they were received: for replies of many records.

`Channel` copies each reply, since its buffer is used again while the caller still reads. Here the
caller receives by itself, one reply after the other, and nothing is read from the connection in
between: the records of a reply are views of the receive buffer that hold until the next `receive`.
Replies come in the order of the requests. After a ClientError the connection is of no more use.
Requests and replies that the caller encodes and decodes by itself go by `begin`, `send_frame` and
`receive_frame`.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar, cast

from penstock.client.network.channel import shake_hands
from penstock.client.network.connection import Connection
from penstock.client.network.errors import BrokenProtocol, ClientError, ConnectionLost, TimedOut
from penstock.client.network.sasl_login import SaslLogin
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import decode_response
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Buffer, Network, Stream

AnyReply = TypeVar("AnyReply", bound=Message)


class ViewChannel:
    """It has no task of its own: who owns it sends, receives and closes."""

    def __init__(self, stream: Stream, connection: Connection, address: Address) -> None:
        assert connection.versions is not None
        self.address = address
        self.client_id = connection.client_id.encode()
        self._stream = stream
        self._connection = connection
        self._is_closed = False
        self._reason: ClientError | None = None

    @property
    def in_flight(self) -> int:
        """Requests whose replies have not been received."""
        return self._connection.in_flight

    def version_for(self, request: type[Message]) -> int:
        return self._connection.version_for(request)

    async def send(self, request: Message, reply_type: type[Message], *, version: int) -> None:
        """Returns when the request has been handed to the network."""
        _, parts = self._connection.send(request, version=version, reply_type=reply_type)
        # A client sends buffers only: splices are for files, and it has none.
        await self.send_frame(cast("list[Buffer]", parts))

    def begin(self, reply_type: type[Message], *, version: int) -> int:
        """The correlation id of a request that the caller encodes, and sends with `send_frame`."""
        return self._connection.begin(reply_type, version=version)

    async def send_frame(self, buffers: Sequence[Buffer]) -> None:
        """Returns when the request has been handed to the network."""
        try:
            rest = self._stream.send_now(buffers)
            if rest:
                await self._stream.send(rest)
        except NetworkError as error:
            self.close()
            raise self._reason or ConnectionLost(str(error)) from error

    async def receive(self, reply_type: type[AnyReply], *, version: int) -> AnyReply:
        """The next reply, which is of the type and version that were given with its request. Its
        predecessor's records are gone. `close` ends the wait.
        """
        return self.decoded(await self.receive_frame(), reply_type, version=version)

    def decoded(self, frame: memoryview, reply_type: type[AnyReply], *, version: int) -> AnyReply:
        """The message of a frame that was received. Its records are views of the frame."""
        try:
            return decode_response(reply_type, version, frame)
        except MalformedMessage as error:
            self.close()
            raise BrokenProtocol(str(error)) from error

    async def receive_frame(self) -> memoryview:
        """As `receive`: the next reply, not decoded. It holds until the next one is received."""
        connection, stream = self._connection, self._stream
        try:
            while (frame := connection.next_frame()) is None:
                count = await stream.receive_into(connection.receive_view())
                if count == 0:
                    raise NetworkError(f"{self.address}: the broker closed the connection")
                connection.add_received(count)
        except NetworkError as error:
            self.close()
            raise self._reason or ConnectionLost(str(error)) from error
        except ClientError:
            self.close()
            raise
        return frame

    async def ask(
        self, request: Message, reply_type: type[AnyReply], *, timeout_ms: int
    ) -> AnyReply:
        """Sends a request, with none before it outstanding, and receives its reply."""
        assert self.in_flight == 0
        version = self.version_for(type(request))
        late = TimedOut(f"{self.address}: no answer within {timeout_ms} ms")
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.close, late)
        try:
            await self.send(request, reply_type, version=version)
            return await self.receive(reply_type, version=version)
        finally:
            timer.cancel()

    def close(self, reason: ClientError | None = None) -> None:
        """At once; who receives is told the reason. Closing twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._reason = reason
            self._stream.close()


async def open_view_channel(
    network: Network,
    address: Address,
    *,
    client_id: str,
    timeout_ms: int,
    login: SaslLogin | None = None,
) -> ViewChannel:
    """Connects, shakes hands and logs in. ClientError when that fails. A session that ends is ended
    by the broker: who fetches connects again, as after any other loss.
    """
    connection = Connection(client_id=client_id)
    stream, _ = await shake_hands(network, address, connection, timeout_ms=timeout_ms, login=login)
    return ViewChannel(stream, connection, address)

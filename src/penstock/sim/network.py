"""The Network port of one process on a simulated machine; `wire` is what lies between them.

Connecting takes a round trip. Where a machine does not answer (it is off, or packets are lost one
way or the other) its system tries again after 1, 2, 4, ... seconds, and gives up after 127 of them.
A machine that is up and has no listener there refuses at once.
"""

import asyncio
from collections.abc import Sequence

from penstock.sim.kill_switch import KillSwitch
from penstock.sim.link import WINDOW_BYTES, Link, Pipe
from penstock.sim.listener import SimListener
from penstock.sim.wire import Wire
from penstock.world.errors import ConnectionRefused, NetworkError
from penstock.world.ports import (
    DEFAULT_OPTIONS,
    Address,
    Buffer,
    FileRange,
    SocketOptions,
)

FIRST_PORT = 49152  # of those that the system chooses
CONNECT_WAITS_S = (1, 2, 4, 8, 16, 32, 64)


class SimStream:
    """One end of a connection; see `Stream` in ports."""

    def __init__(
        self, wire: Wire, link: Link, kill_switch: KillSwitch, peer: Address, *, is_client: bool
    ) -> None:
        self.peer = peer
        self._wire = wire
        self._link = link
        self._kill_switch = kill_switch
        self._is_client = is_client
        self._out, self._in = (
            (link.requests, link.replies) if is_client else (link.replies, link.requests)
        )
        self._closed = False

    async def receive_into(self, view: memoryview) -> int:
        assert len(view) > 0
        self._kill_switch.check()
        pipe = self._in
        while True:
            self._refuse_if_gone()
            if pipe.arrived:
                break
            if pipe.ended:
                return 0
            assert pipe.readable is None, "two receivers"
            pipe.readable = self._wire.loop.create_future()
            try:
                await pipe.readable
            finally:
                pipe.readable = None
            self._kill_switch.check()
        count = self._wire.some_of(min(len(view), len(pipe.arrived)))
        view[:count] = pipe.arrived[:count]
        del pipe.arrived[:count]
        pipe.wake()
        return count

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        await self._send(b"".join(buffers))

    def send_now(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        pipe = self._out
        assert pipe.writable is None, "two senders"
        data = b"".join(buffers)
        while data and self._may_send(pipe):
            data = self._send_some(pipe, data)
        return [data] if data else []

    async def send_file(self, span: FileRange) -> None:
        position, end = span.position, span.position + span.byte_count
        while position < end:
            self._kill_switch.check()
            piece = span.file.read_at(position, min(end - position, WINDOW_BYTES))
            if not piece:
                raise NetworkError(f"{span.file.path} ends at {position}, before {end}")
            await self._send(piece)
            position += len(piece)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._is_client:
            self._link.closed_by_client = True
        self._link.unanswered.clear()
        self._in.wake()
        self._out.wake()
        if not self._kill_switch.is_tripped:
            self._link.end(self._out)

    async def _send(self, data: bytes) -> None:
        pipe = self._out
        while data:
            if self._may_send(pipe):
                data = self._send_some(pipe, data)
                continue
            assert pipe.writable is None, "two senders"
            pipe.writable = self._wire.loop.create_future()
            try:
                await pipe.writable
            finally:
                pipe.writable = None

    def _may_send(self, pipe: Pipe) -> bool:
        """Whether there is room; raises when there is nobody to send to."""
        self._kill_switch.check()
        self._refuse_if_gone()
        if self._in.ended:
            raise NetworkError(f"{self.peer}: Broken pipe")
        return pipe.room > 0

    def _send_some(self, pipe: Pipe, data: bytes) -> bytes:
        """Some bytes of the data, as many as the seed says; returns the rest."""
        count = self._wire.some_of(min(len(data), pipe.room))
        self._link.send(pipe, data[:count])
        return data[count:]

    def _refuse_if_gone(self) -> None:
        if self._closed:
            raise NetworkError(f"{self.peer}: closed")
        if self._link.is_reset:
            raise NetworkError(f"{self.peer}: Connection reset by peer")


class SimNetwork:
    """See `Network` in ports."""

    def __init__(self, wire: Wire, kill_switch: KillSwitch, host: str) -> None:
        wire.add_host(host)
        self._wire = wire
        self._kill_switch = kill_switch
        self._host = host

    async def bind(self, address: Address, options: SocketOptions = DEFAULT_OPTIONS) -> SimListener:
        self._kill_switch.check()
        host = self._wire.resolve(address.host, asked_by=self._host)
        if host != self._host:
            raise NetworkError(f"cannot listen on {address}: Cannot assign requested address")
        port = address.port or self._wire.free_port(host)
        listener = SimListener(Address(host=address.host, port=port), self._kill_switch)
        if not self._wire.take(Address(host=host, port=port), listener):
            raise NetworkError(f"cannot listen on {address}: Address already in use")
        return listener

    async def connect(self, address: Address) -> SimStream:
        self._kill_switch.check()
        wire = self._wire
        host = wire.resolve(address.host, asked_by=self._host)
        await self._handshake(host, address)
        self._kill_switch.check()
        place = Address(host=host, port=address.port)
        listener = wire.listener_at(place)
        if listener is None or listener.accept is None:
            raise ConnectionRefused(f"cannot connect to {address}: Connection refused")
        link = wire.connected(self._host, place)
        peer = Address(host=self._host, port=FIRST_PORT + link.number % 10_000)
        server_end = SimStream(wire, link, listener.kill_switch, peer, is_client=False)
        wire.loop.call_soon(listener.accept, server_end, context=listener.context)
        return SimStream(wire, link, self._kill_switch, address, is_client=True)

    def host_name(self) -> str:
        return self._host

    async def _handshake(self, host: str, address: Address) -> None:
        """Returns when the machine has answered."""
        wire = self._wire
        for wait_s in CONNECT_WAITS_S:
            await asyncio.sleep(wire.path(self._host, host).delay_us() / 1_000_000)
            if wire.answers(host, asked_by=self._host):
                return
            await asyncio.sleep(wait_s)
        raise NetworkError(f"cannot connect to {address}: Connection timed out")

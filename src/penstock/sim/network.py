"""A network in memory: bytes in order with delay, until somebody resets or silences them.

    LIVE     bytes arrive, in order, each piece after a delay of its own
    SILENT   half-open: what is sent is taken and never arrives
    GHOST    the other machine has started anew and knows nothing of it: the next bytes reset it
    RESET    both ends are told

A killed process has its connections reset by its system; one whose machine loses power leaves
them silent. Each connection counts requests and replies by their frames, as a tap on the wire
would, so that a request which is never answered shows, whatever the client makes of it.
"""

import asyncio
import contextvars
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from random import Random

from penstock.sim.frame_tap import FrameTap
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from penstock.world.errors import NetworkError
from penstock.world.ports import (
    DEFAULT_OPTIONS,
    Address,
    Buffer,
    FileRange,
    SocketOptions,
    Stream,
)

WINDOW_BYTES = 64 * 1024  # sent and not yet received; beyond it a sender waits
FIRST_PORT = 49152


class State(Enum):
    LIVE = "live"
    SILENT = "silent"
    GHOST = "ghost"
    RESET = "reset"


class Pipe:
    """One direction of a connection."""

    __slots__ = ("arrived", "ended", "in_transit", "last_arrival_us", "readable", "tap", "writable")

    def __init__(self) -> None:
        self.arrived = bytearray()
        self.in_transit = 0
        self.last_arrival_us = 0
        self.ended = False  # the sender has closed, and all it sent has arrived
        self.readable: asyncio.Future[None] | None = None
        self.writable: asyncio.Future[None] | None = None
        self.tap = FrameTap()

    @property
    def room(self) -> int:
        return WINDOW_BYTES - self.in_transit - len(self.arrived)

    def wake(self) -> None:
        for waiter in (self.readable, self.writable):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


class Link:
    """Both directions of a connection, and what has befallen it."""

    def __init__(self, wire: "Wire", number: int, client: str, server: Address) -> None:
        self.wire = wire
        self.number = number
        self.client = client
        self.server = server
        self.state = State.LIVE
        self.closed_by_client = False
        self.requests = Pipe()
        self.replies = Pipe()
        self.unanswered: deque[int] = deque()  # when each request arrived, in us

    def send(self, pipe: Pipe, piece: bytes) -> None:
        wire = self.wire
        wire.trace.detail("send", self.number, len(piece), zlib.crc32(piece))
        pipe.in_transit += len(piece)
        if self.state is State.LIVE:
            pipe.last_arrival_us = max(pipe.last_arrival_us, wire.loop.now_us + wire.delay_us())
            wire.loop.call_at(pipe.last_arrival_us / 1_000_000, self._arrive, pipe, piece)
            if pipe is self.replies:
                for _ in range(min(pipe.tap.frames_in(piece), len(self.unanswered))):
                    self.unanswered.popleft()
        elif self.state is State.GHOST:
            wire.loop.call_later(wire.delay_us() / 1_000_000, self.reset)

    def end(self, pipe: Pipe) -> None:
        """One side closes: the other learns of it after all that was sent before."""
        if self.state is State.LIVE:
            at_us = max(pipe.last_arrival_us, self.wire.loop.now_us + self.wire.delay_us())
            self.wire.loop.call_at(at_us / 1_000_000, self._arrive_end, pipe)

    def reset(self) -> None:
        self._become(State.RESET)
        for pipe in (self.requests, self.replies):
            pipe.wake()

    def silence(self) -> None:
        """Nothing arrives any more, and nobody is told; nor does what has arrived and not been
        read.
        """
        if self.state is not State.RESET:
            self._become(State.SILENT)
            self.requests.arrived.clear()
            self.replies.arrived.clear()

    def forget(self) -> None:
        """The server's machine is up again and does not know of it."""
        if self.state is State.SILENT:
            self._become(State.GHOST)

    def _become(self, state: State) -> None:
        if self.state is not state:
            self.wire.trace.detail("link", self.number, state.value)
        self.state = state
        self.unanswered.clear()

    def _arrive(self, pipe: Pipe, piece: bytes) -> None:
        if self.state is not State.LIVE:
            return
        pipe.in_transit -= len(piece)
        pipe.arrived += piece
        pipe.wake()
        if pipe is self.requests:
            for _ in range(pipe.tap.frames_in(piece)):
                self.unanswered.append(self.wire.loop.now_us)

    def _arrive_end(self, pipe: Pipe) -> None:
        if self.state is State.LIVE:
            pipe.ended = True
            pipe.wake()


class SimStream:
    """One end of a connection; see `Stream` in ports."""

    def __init__(
        self, link: Link, kill_switch: KillSwitch, peer: Address, *, is_client: bool
    ) -> None:
        self.peer = peer
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
            pipe.readable = self._link.wire.loop.create_future()
            try:
                await pipe.readable
            finally:
                pipe.readable = None
            self._kill_switch.check()
        count = self._link.wire.some_of(min(len(view), len(pipe.arrived)))
        view[:count] = pipe.arrived[:count]
        del pipe.arrived[:count]
        pipe.wake()
        return count

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        await self._send(b"".join(buffers))

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
            self._kill_switch.check()
            self._refuse_if_gone()
            if self._in.ended:
                raise NetworkError(f"{self.peer}: Broken pipe")
            if pipe.room <= 0:
                assert pipe.writable is None, "two senders"
                pipe.writable = self._link.wire.loop.create_future()
                try:
                    await pipe.writable
                finally:
                    pipe.writable = None
                continue
            count = self._link.wire.some_of(min(len(data), pipe.room))
            self._link.send(pipe, data[:count])
            data = data[count:]

    def _refuse_if_gone(self) -> None:
        if self._closed:
            raise NetworkError(f"{self.peer}: closed")
        if self._link.state is State.RESET:
            raise NetworkError(f"{self.peer}: Connection reset by peer")


class SimListener:
    def __init__(self, wire: "Wire", kill_switch: KillSwitch, address: Address) -> None:
        self.address = address
        self.accept: Callable[[Stream], None] | None = None
        # What it starts belongs to the process that listens, not to the one that connects.
        self.context = contextvars.copy_context()
        self._wire = wire
        self._kill_switch = kill_switch

    def listen(self, accept: Callable[[Stream], None]) -> None:
        self._kill_switch.check()
        self.accept = accept

    def close(self) -> None:
        found = self._wire.listeners.get(self.address)
        if found is not None and found[0] is self:
            del self._wire.listeners[self.address]


class Wire:
    """What lies between all machines of a simulation."""

    def __init__(self, loop: SimLoop, chance: Random, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.listeners: dict[Address, tuple[SimListener, KillSwitch]] = {}
        self.links: list[Link] = []
        self.delay_us_max = 1_000
        self.short_chance = 0.0  # of a read or a write that moves less than it could
        self.links_made = 0
        self._chance = chance

    def delay_us(self) -> int:
        return self._chance.randint(50, self.delay_us_max)

    def some_of(self, count: int) -> int:
        if count > 1 and self.short_chance and self._chance.random() < self.short_chance:
            return self._chance.randint(1, count)
        return count

    def live_links(self) -> list[Link]:
        self.links = [
            link
            for link in self.links
            if link.state is not State.RESET and not link.closed_by_client
        ]
        return self.links

    def overdue(self, *, older_than_ms: int) -> Link | None:
        """A connection on which a request has waited for so long, and nothing explains it."""
        moment_us = self.loop.now_us - older_than_ms * 1000
        for link in self.live_links():
            if link.unanswered and link.unanswered[0] < moment_us:
                return link
        return None

    def server_killed(self) -> None:
        self.listeners.clear()
        for link in self.live_links():
            # Nobody reads what was sent to it; those who wait are told a moment later.
            link.silence()
            self.loop.call_later(self.delay_us() / 1_000_000, link.reset)

    def server_lost_power(self) -> None:
        self.listeners.clear()
        for link in self.live_links():
            link.silence()

    def server_is_up(self) -> None:
        for link in self.live_links():
            link.forget()


class SimNetwork:
    """The Network port of one process."""

    def __init__(self, wire: Wire, kill_switch: KillSwitch, host: str) -> None:
        self._wire = wire
        self._kill_switch = kill_switch
        self._host = host

    async def bind(self, address: Address, options: SocketOptions = DEFAULT_OPTIONS) -> SimListener:
        self._kill_switch.check()
        if address in self._wire.listeners:
            raise NetworkError(f"cannot listen on {address}: Address already in use")
        listener = SimListener(self._wire, self._kill_switch, address)
        self._wire.listeners[address] = listener, self._kill_switch
        return listener

    async def connect(self, address: Address) -> SimStream:
        self._kill_switch.check()
        wire = self._wire
        await asyncio.sleep(wire.delay_us() / 1_000_000)
        self._kill_switch.check()
        found = wire.listeners.get(address)
        if found is None or found[0].accept is None:
            raise NetworkError(f"cannot connect to {address}: Connection refused")
        listener, server_kill_switch = found
        wire.links_made += 1
        link = Link(wire, wire.links_made, self._host, address)
        wire.links.append(link)
        peer = Address(host=self._host, port=FIRST_PORT + link.number % 10_000)
        server_end = SimStream(link, server_kill_switch, peer, is_client=False)
        wire.loop.call_soon(found[0].accept, server_end, context=listener.context)
        return SimStream(link, self._kill_switch, address, is_client=True)

    def host_name(self) -> str:
        return self._host

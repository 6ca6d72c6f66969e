"""One connection on the simulated network: two pipes, and what has befallen each of them.

Bytes arrive in order, each piece after a delay of its own. What becomes of a pipe depends on who
is left at its far end:

    DELIVERED   somebody may read it
    DROPPED     nobody answers: the machine is off, or something on the way forgot the connection;
                what is sent is taken and never arrives
    REFUSED     the machine is up and does not know the connection: the next bytes reset it

A reset is told to both ends. Packets that a blocked path loses are sent again, as TCP does, after
0.2 s, 0.4 s, 0.8 s and so on: once the path is open they arrive with the next try. Where the path
back is blocked, bytes arrive and their sender is not told, so its window fills.

Each connection counts requests and replies by their frames, as a tap on the wire would, so that a
request which is never answered shows, whatever the client makes of it.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import Iterable
from enum import Enum
from random import Random

from penstock.sim.frame_tap import FrameTap
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from penstock.world.ports import Address

WINDOW_BYTES = 64 * 1024  # sent and not yet received; beyond it a sender waits
DELAY_US_MIN = 50
FIRST_RETRY_US = 200_000
RETRY_US_MAX = 120_000_000


class Fate(Enum):
    DELIVERED = "live"
    DROPPED = "silent"
    REFUSED = "ghost"


class Delays:
    """How long packets take where a path has no delay of its own."""

    __slots__ = ("chance", "us_max")

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.us_max = 1_000

    def us(self) -> int:
        return self.chance.randint(DELAY_US_MIN, self.us_max)


class Path:
    """One direction between two machines."""

    __slots__ = ("_blocks", "_delays", "bytes_per_second", "is_blocked", "slow_us_max")

    def __init__(self, delays: Delays) -> None:
        self.is_blocked = False  # packets are lost, without a word
        self._blocks = 0
        self.slow_us_max: int | None = None  # a delay of its own
        self.bytes_per_second: int | None = None  # None: as many as come
        self._delays = delays

    def delay_us(self) -> int:
        if self.slow_us_max is None:
            return self._delays.us()
        return self._delays.chance.randint(DELAY_US_MIN, self.slow_us_max)

    def block(self) -> None:
        self._blocks += 1
        self.is_blocked = True

    def unblock(self) -> bool:
        """Takes back one `block`; whether the path is open now."""
        assert self._blocks > 0
        self._blocks -= 1
        self.is_blocked = self._blocks > 0
        return not self.is_blocked

    def transfer_us(self, byte_count: int) -> int:
        if self.bytes_per_second is None:
            return 0
        return byte_count * 1_000_000 // self.bytes_per_second


class Pipe:
    """One direction of a connection."""

    __slots__ = (
        "arrived",
        "back",
        "ended",
        "fate",
        "in_transit",
        "last_arrival_us",
        "lost",
        "lost_at_us",
        "path",
        "readable",
        "tap",
        "unacked",
        "writable",
    )

    def __init__(self, path: Path, back: Path) -> None:
        self.path = path
        self.back = back  # the path that its acks take
        self.fate = Fate.DELIVERED
        self.arrived = bytearray()
        self.in_transit = 0
        self.unacked = 0  # bytes that arrived while no ack could get back
        self.last_arrival_us = 0
        self.lost: deque[bytes | None] = deque()  # to be sent again; None: the end of the stream
        self.lost_at_us = 0  # when the first of them was lost
        self.ended = False  # the sender has closed, and all it sent has arrived
        self.readable: asyncio.Future[None] | None = None
        self.writable: asyncio.Future[None] | None = None
        self.tap = FrameTap()

    @property
    def room(self) -> int:
        return WINDOW_BYTES - self.in_transit - self.unacked - len(self.arrived)

    def wake(self) -> None:
        for waiter in (self.readable, self.writable):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def lose(self, piece: bytes | None, *, now_us: int) -> None:
        if not self.lost:
            self.lost_at_us = now_us
        self.lost.append(piece)

    def next_retry_us(self, now_us: int) -> int:
        """When the sender's system tries again: the first such moment from now on."""
        at_us, wait_us = self.lost_at_us, FIRST_RETRY_US
        while at_us < now_us:
            at_us += wait_us
            wait_us = min(wait_us * 2, RETRY_US_MAX)
        return at_us


class Link:
    """A connection between a client's machine and a server's."""

    def __init__(
        self,
        *,
        loop: SimLoop,
        trace: Trace,
        number: int,
        client: str,
        server: Address,
        there: Path,
        back: Path,
    ) -> None:
        self.number = number
        self.client = client
        self.server = server
        self.is_reset = False
        self.closed_by_client = False
        self.requests = Pipe(there, back)
        self.replies = Pipe(back, there)
        self.unanswered: deque[int] = deque()  # when each request arrived, in us
        self._loop = loop
        self._trace = trace

    # Queries

    @property
    def pipes(self) -> tuple[Pipe, Pipe]:
        return self.requests, self.replies

    def joins(self, host: str) -> bool:
        return host in (self.client, self.server.host)

    # What its ends do

    def send(self, pipe: Pipe, piece: bytes) -> None:
        self._trace.detail("send", self.number, len(piece), zlib.crc32(piece))
        pipe.in_transit += len(piece)
        if self.is_reset:
            return
        if pipe.fate is Fate.DELIVERED:
            self._put_under_way(pipe, piece)
            if pipe is self.replies:
                for _ in range(min(pipe.tap.frames_in(piece), len(self.unanswered))):
                    self.unanswered.popleft()
        elif pipe.fate is Fate.REFUSED and not (pipe.path.is_blocked or pipe.back.is_blocked):
            self._loop.call_outside(pipe.path.delay_us(), self.reset)

    def end(self, pipe: Pipe) -> None:
        """One side closes: the other learns of it after all that was sent before."""
        if not self.is_reset and pipe.fate is Fate.DELIVERED:
            if pipe.path.is_blocked:
                pipe.lose(None, now_us=self._loop.now_us)
                return
            now_us = self._loop.now_us
            at_us = max(pipe.last_arrival_us, now_us + pipe.path.delay_us())
            self._loop.call_outside(at_us - now_us, self._arrive, pipe, None)

    # What befalls it

    def reset(self) -> None:
        if not self.is_reset:
            self._trace.detail("link", self.number, "reset")
        self.is_reset = True
        self.unanswered.clear()
        for pipe in self.pipes:
            pipe.wake()

    def silence(self) -> None:
        """Nothing arrives any more, and nobody is told; nor does what has arrived and not been
        read.
        """
        if not self.is_reset:
            self._leave(self.pipes, Fate.DROPPED)

    def lose_end(self, host: str, fate: Fate) -> None:
        """Nobody reads on this machine any more; what it has sent is on its way."""
        if not self.is_reset:
            pipes = [self.requests] if host == self.server.host else []
            pipes += [self.replies] if host == self.client else []
            self._leave(pipes, fate)

    def send_reset(self, host: str) -> None:
        """The machine tells its peer, after all that it sent before, that it reads no more."""
        pipe = self.replies if host == self.server.host else self.requests
        if not self.is_reset and not pipe.path.is_blocked:
            now_us = self._loop.now_us
            at_us = max(pipe.last_arrival_us + 1, now_us + pipe.path.delay_us())
            self._loop.call_outside(at_us - now_us, self._arrive_reset, pipe)

    def forget(self, host: str) -> None:
        """The machine was off, is up again and does not know of it."""
        if not self.is_reset:
            to_host = self.requests if host == self.server.host else self.replies
            if to_host.fate is Fate.DROPPED:
                self._leave([to_host], Fate.REFUSED)

    def excuse(self) -> None:
        """Requests that wait have come just now, as far as their answers are judged."""
        self.unanswered = deque([self._loop.now_us] * len(self.unanswered))

    def path_opens(self, path: Path) -> None:
        """What was lost is sent again, at the next try; acks get through."""
        now_us = self._loop.now_us
        for pipe in self.pipes:
            if pipe.path is path and pipe.lost:
                self._loop.call_outside(pipe.next_retry_us(now_us) - now_us, self._retry, pipe)
            if pipe.back is path and pipe.unacked:
                pipe.unacked = 0
                pipe.wake()

    # Parts

    def _put_under_way(self, pipe: Pipe, piece: bytes) -> None:
        now_us, path = self._loop.now_us, pipe.path
        if path.is_blocked:
            pipe.lose(piece, now_us=now_us)
            return
        at_us = max(pipe.last_arrival_us, now_us + path.delay_us())
        pipe.last_arrival_us = at_us = at_us + path.transfer_us(len(piece))
        self._loop.call_outside(at_us - now_us, self._arrive, pipe, piece)

    def _arrive(self, pipe: Pipe, piece: bytes | None) -> None:
        if pipe.lost or pipe.path.is_blocked:
            pipe.lose(piece, now_us=self._loop.now_us)  # in order: after those lost before it
        else:
            self._deliver(pipe, piece)

    def _arrive_reset(self, pipe: Pipe) -> None:
        if not pipe.path.is_blocked:
            self.reset()

    def _retry(self, pipe: Pipe) -> None:
        while pipe.lost and not pipe.path.is_blocked:
            self._deliver(pipe, pipe.lost.popleft())

    def _deliver(self, pipe: Pipe, piece: bytes | None) -> None:
        if self.is_reset or pipe.fate is Fate.DROPPED:
            return
        if pipe.fate is Fate.REFUSED:
            if not pipe.back.is_blocked:
                self.reset()
            return
        if piece is None:
            pipe.ended = True
            pipe.wake()
            return
        pipe.in_transit -= len(piece)
        pipe.arrived += piece
        if pipe.back.is_blocked:
            pipe.unacked += len(piece)
        pipe.wake()
        if pipe is self.requests:
            for _ in range(pipe.tap.frames_in(piece)):
                self.unanswered.append(self._loop.now_us)

    def _leave(self, pipes: Iterable[Pipe], fate: Fate) -> None:
        changed = [pipe for pipe in pipes if pipe.fate is not fate]
        if changed:
            self._trace.detail("link", self.number, fate.value)
        for pipe in changed:
            pipe.fate = fate
            pipe.arrived.clear()
        self.unanswered.clear()

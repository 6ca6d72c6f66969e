"""A reply that comes later, without a task or a future of its own.

A handler that must wait for something that tells it by itself (the high watermark, the end of a
log) returns a `PendingReply`. Its connection gives it a place in the line of replies, and sends it
once it is filled. When the connection ends first, the reply is abandoned: a subclass takes back
whatever it has registered elsewhere.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.broker.request.request_stats import TimedRequest
from penstock.wire.codec import Part

Parts = list[Part]


class Line(Protocol):
    """Where a reply has its place: a connection, or a task that waits for this reply alone."""

    def filled(self, reply: "PendingReply") -> None: ...

    def call_soon(self, step: Callable[[], None]) -> None:
        """Calls `step` in the next turn of the loop; a bug in it ends the node, like any other."""


class PendingReply:
    """The place of one reply in the line of its connection."""

    __slots__ = ("line", "parts", "request_bytes", "size_bytes", "timed")

    def __init__(self) -> None:
        self.line: Line | None = None
        self.parts: Parts | None = None  # None until the answer is there
        self.size_bytes = 0  # in memory
        self.request_bytes = 0  # of the request that waits for it
        self.timed: TimedRequest | None = None  # if its times are taken

    @property
    def is_filled(self) -> bool:
        """Asked, and not looked up at `parts`, by who waits between two looks: compiled code takes
        what was None before an await for None after it.
        """
        return self.parts is not None

    def fill(self, parts: Parts) -> None:
        """The answer is there; called once."""
        assert self.parts is None
        self.parts = parts
        if self.line is not None:
            self.line.filled(self)

    def abandon(self) -> None:
        """Nobody waits for this reply any more: it leaves no trace."""
        self.line = None


class _Waiter:
    """The line of a reply that a task waits for."""

    __slots__ = ("woken",)

    def __init__(self) -> None:
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def filled(self, reply: PendingReply) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def call_soon(self, step: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(step)


async def when_filled(reply: PendingReply) -> None:
    """For a task that goes on with the reply; cancelling it abandons the reply."""
    if reply.is_filled:
        return
    waiter = _Waiter()
    reply.line = waiter
    try:
        await waiter.woken
    finally:
        if not reply.is_filled:
            reply.abandon()

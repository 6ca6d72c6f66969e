"""The life of a node: start, serve until asked to stop or until something is wrong, stop.

    start() -> serving -> stop()            clean: requests finish, logs are closed and marked so
                       -> kill()            as a crash, for tests
                       -> failed()          a bug or a lost disk: nobody is answered any more, and
                                            nothing is tidied up, so that the next start looks at
                                            everything that may be torn

What a node consists of is decided in `node/build`; this module only owns when things happen.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from penstock.model import limit
from penstock.model.error import PenstockError
from penstock.model.events import NODE_FAILED
from penstock.world.event_log import tell
from penstock.world.ports import Address
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)


class Running(Protocol):
    """The open parts of a node."""

    @property
    def addresses(self) -> Mapping[str, Address]: ...

    @property
    def metrics_address(self) -> Address | None: ...

    async def drain(self, *, wait_ms: int) -> None:
        """Takes no more requests, and lets those under way finish for so long."""

    def close(self) -> None:
        """Stores everything and marks it as cleanly stopped."""

    def hang_up(self) -> None:
        """Takes and answers nothing more, at once; harmless when done twice."""

    def abandon(self) -> None:
        """Hangs up, lets go of files and locks and leaves them as they are."""


class NodeStopped(PenstockError):
    """The node ended before it was ready."""


class Node:
    """One node; made by `node.build.build`. `start` and `stop` are called once each."""

    def __init__(self, open_parts: Callable[[TaskGroup], Awaitable[Running]]) -> None:
        self._open_parts = open_parts
        self._running: Running | None = None
        self._main: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where clients reach it, in the order of the listeners in its settings."""
        return tuple(self.addresses_by_listener.values())

    @property
    def addresses_by_listener(self) -> Mapping[str, Address]:
        assert self._running is not None, "the node has not started"
        return self._running.addresses

    @property
    def metrics_address(self) -> Address | None:
        """Where GET /metrics is answered; None: nowhere."""
        assert self._running is not None, "the node has not started"
        return self._running.metrics_address

    async def start(self) -> None:
        """Returns when clients can produce; raises what kept it from that."""
        assert self._main is None, "a node starts once"
        self._main = asyncio.get_running_loop().create_task(self._live(), name="node")
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait([self._main, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._main.cancel()
            raise
        finally:
            ready.cancel()
        if not self._ready.is_set():
            raise self._failure or NodeStopped("stopped before it was ready")

    async def stop(self) -> None:
        """Graceful, and harmless when the node has ended already."""
        self._stop_asked.set()
        if self._main is not None:
            await asyncio.wait([self._main])

    async def kill(self) -> None:
        """Ends it as a crash would: nothing is answered, stored or marked any more."""
        if self._main is not None:
            self._main.cancel()
            await asyncio.wait([self._main])

    async def failed(self) -> BaseException | None:
        """Waits for the node's end: the error that ended it, or None when it was asked to stop."""
        await self._ended.wait()
        return self._failure

    async def _live(self) -> None:
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._abandon()
            raise
        except BaseException as failure:
            # The one place that meets every error: told to those who wait in `start` or `failed`.
            self._failure = failure
            if self._ready.is_set():
                # What the outside did is told in a line; a bug of ours with where it happened.
                foreseen = isinstance(failure, PenstockError)
                tell(
                    logger,
                    NODE_FAILED,
                    reason=str(failure) or type(failure).__name__,
                    failure=None if foreseen else failure,
                )
            self._abandon()
        finally:
            self._ended.set()

    async def _serve(self) -> None:
        async with TaskGroup() as group:
            running = self._running = await self._open_parts(group)
            self._ready.set()
            try:
                await self._stop_asked.wait()
                await running.drain(wait_ms=limit.STOP_WAIT_MS_MAX)
            except BaseException:
                # Before its tasks end: a node that is wrong would else be heard until they have.
                running.hang_up()
                raise
            group.cancel()
        running.close()

    def _abandon(self) -> None:
        if self._running is not None:
            self._running.abandon()

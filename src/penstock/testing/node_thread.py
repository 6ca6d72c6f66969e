"""One life of a node in this process: a thread of its own, an event loop of its own.

The process belongs to somebody else. So no signal, no loop policy, no limit of it is touched; long
work runs inline; and when the node ends itself over a failed assertion, the process goes on: the
error is kept until somebody asks for the end.
"""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from penstock.client.network.errors import TimedOut
from penstock.model.error import PenstockError
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.world.disk import RealDisk
from penstock.world.ports import Address
from penstock.world.real import real_world

Result = TypeVar("Result")

WAIT_SECONDS_MAX = 30.0


class BrokerFailed(PenstockError):
    """The broker ended by itself, could not start, or does not run; the cause says why."""


class NodeThread:
    """`start` and `end` are called once each, from any thread but its own."""

    def __init__(self, config: NodeConfig) -> None:
        self.addresses: tuple[Address, ...] = ()
        self._config = config
        self._disk = RealDisk()
        self.world = replace(real_world(inline=True), disk=self._disk)
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end_asked: asyncio.Future[bool] | None = None  # whether to stop cleanly
        self._given_up = threading.Event()  # nobody waits for its start any more
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock broker", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self, *, wait_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Returns when clients can produce; BrokerFailed with what kept the node from that, which
        has ended then.
        """
        self._thread.start()
        ready = False
        try:
            ready = self._ready.wait(wait_seconds_max)
        finally:
            if not ready:
                self._give_up()
        if not ready:
            raise BrokerFailed(f"the broker was not ready within {wait_seconds_max} s")
        if self._failure is not None:
            raise BrokerFailed(f"the broker could not start: {self._failure}") from self._failure

    def end(self, *, cleanly: bool) -> None:
        """A clean stop, or what a kill would leave; BrokerFailed if it had ended by itself."""
        self._ask_end_from_outside(cleanly=cleanly)
        self._thread.join(WAIT_SECONDS_MAX)
        if self._thread.is_alive():
            raise BrokerFailed(f"the broker did not stop within {WAIT_SECONDS_MAX} s")
        self._raise_failure()

    def call(self, work: Coroutine[Any, Any, Result], *, wait_seconds_max: float) -> Result:
        """Runs a coroutine on the node's loop and waits for it here."""
        if self._loop is None or not self._thread.is_alive():
            work.close()
            self._raise_failure()
            raise BrokerFailed("the broker does not run: call start()")
        under_way = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return under_way.result(wait_seconds_max)
        except TimeoutError:
            under_way.cancel()
            raise TimedOut(f"the broker did not answer within {wait_seconds_max} s") from None

    def _give_up(self) -> None:
        self._given_up.set()
        self._ask_end_from_outside(cleanly=False)
        self._thread.join(WAIT_SECONDS_MAX)

    def _ask_end_from_outside(self, *, cleanly: bool) -> None:
        if self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._ask_end, cleanly)

    def _ask_end(self, cleanly: bool) -> None:
        assert self._end_asked is not None
        if not self._end_asked.done():
            self._end_asked.set_result(cleanly)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._live())
        except BaseException as failure:  # it ends the node here, and is raised by `end`
            self._failure = failure
        finally:
            self._disk.close()
            self._ready.set()

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        self._end_asked = loop.create_future()
        self._loop = loop  # from here on the end is asked for by a call of the loop
        if self._given_up.is_set():
            return
        node = build(self.world, self._config)
        starting = asyncio.ensure_future(node.start())
        await asyncio.wait((starting, self._end_asked), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            await node.kill()
        await starting
        self.addresses = node.addresses
        self._ready.set()
        failed = asyncio.ensure_future(node.failed())
        await asyncio.wait((failed, self._end_asked), return_when=asyncio.FIRST_COMPLETED)
        if not failed.done():
            await (node.stop() if self._end_asked.result() else node.kill())
        failure = await failed
        if failure is not None:
            raise failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure = f"{type(self._failure).__name__}: {self._failure}"
            raise BrokerFailed(f"the broker ended by itself: {failure}") from self._failure

"""The nodes of a test, in this process: one thread of their own with one event loop.

The process belongs to somebody else. So no signal, no loop policy, no limit of it is touched; long
work runs inline; and when a node ends itself over a failed assertion, the process goes on: the
thread ends, and the error is kept until somebody asks for the end.

Nodes share nothing but the loop: each has a disk of its own, and talks to the others by TCP.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from penstock.client.network.errors import TimedOut
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.offload import Inline
from penstock.world.ports import Address, World
from penstock.world.real import read_boot_id
from penstock.world.tcp import TcpNetwork

Result = TypeVar("Result")

WAIT_SECONDS_MAX = 30.0


class BrokerFailed(PenstockError):
    """The broker ended by itself, could not start, or does not run; the cause says why."""


class NodeThread:
    """`start` and `end` are called once each, from any thread but its own; `start_node` and
    `end_node` in between.
    """

    def __init__(self, configs: Sequence[NodeConfig]) -> None:
        self.network = TcpNetwork()  # for clients that run on the loop
        self.clock = RealClock()
        self.addresses: dict[NodeId, tuple[Address, ...]] = {}  # of nodes that have been ready
        self._configs = {config.node_id: config for config in configs}
        self._lives: dict[NodeId, _Life] = {}
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end_asked: asyncio.Future[bool] | None = None  # whether to stop cleanly
        self._given_up = threading.Event()  # nobody waits for its start any more
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock broker", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def running(self) -> frozenset[NodeId]:
        return frozenset(self._lives) if self.is_alive else frozenset()

    def start(self, *, wait_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Starts all nodes. Returns when clients can produce; BrokerFailed with what kept them from
        that, which have ended then.
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

    def start_node(self, node_id: NodeId, *, wait_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Starts one that has ended; BrokerFailed if it cannot. The others go on."""
        try:
            self.call(self._start(node_id), wait_seconds_max=wait_seconds_max)
        except TimedOut as error:
            self.end_node(node_id, cleanly=False)
            raise BrokerFailed(
                f"node {node_id} was not ready within {wait_seconds_max} s"
            ) from error
        except BrokerFailed:
            raise
        except PenstockError as error:
            raise BrokerFailed(f"node {node_id} could not start: {error}") from error

    def end_node(self, node_id: NodeId, *, cleanly: bool) -> None:
        """Ends one, and the others go on; harmless when it has ended."""
        life = self._lives.get(node_id)
        if life is not None:
            self.call(self._end(life, cleanly=cleanly), wait_seconds_max=WAIT_SECONDS_MAX)

    def end(self, *, cleanly: bool) -> None:
        """A clean stop of all, or what a kill would leave; BrokerFailed if one ended by itself."""
        self._ask_end_from_outside(cleanly=cleanly)
        self._thread.join(WAIT_SECONDS_MAX)
        if self._thread.is_alive():
            raise BrokerFailed(f"the broker did not stop within {WAIT_SECONDS_MAX} s")
        self._raise_failure()

    def call(self, work: Coroutine[Any, Any, Result], *, wait_seconds_max: float) -> Result:
        """Runs a coroutine on the nodes' loop and waits for it here."""
        if self._loop is None or not self._thread.is_alive():
            work.close()
            self._raise_failure()
            raise BrokerFailed("the broker does not run: call start()")
        under_way = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return under_way.result(wait_seconds_max)
        except CancelledError:  # the thread is ending
            self._thread.join(WAIT_SECONDS_MAX)
            self._raise_failure()
            raise BrokerFailed("the broker has ended: call start()") from None
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

    # On the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._live())
        except BaseException as failure:  # it ends the nodes here, and is raised by `end`
            self._failure = failure
        finally:
            self._ready.set()

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        self._end_asked = loop.create_future()
        self._loop = loop  # from here on the end is asked for by a call of the loop
        cleanly = False
        try:
            if self._given_up.is_set():
                return
            await asyncio.gather(*(self._start(node_id) for node_id in self._configs))
            self._ready.set()
            cleanly = await self._end_asked
        finally:
            lives = list(self._lives.values())
            await asyncio.gather(*(self._end(life, cleanly=cleanly) for life in lives))

    async def _start(self, node_id: NodeId) -> None:
        assert node_id not in self._lives, f"node {node_id} runs"
        assert self._end_asked is not None
        life = self._lives[node_id] = _Life(self._configs[node_id])
        starting = asyncio.ensure_future(life.node.start())
        try:
            await asyncio.wait((starting, self._end_asked), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                await life.node.kill()
            await starting
        except BaseException:
            starting.cancel()
            await self._end(life, cleanly=False)
            raise
        self.addresses[node_id] = life.node.addresses
        life.watch = asyncio.ensure_future(self._watch(life))

    async def _watch(self, life: "_Life") -> None:
        """A node that ends by itself takes the others with it: a test must not go on as if nothing
        had happened.
        """
        failure = await life.node.failed()
        assert self._end_asked is not None
        if failure is not None and not self._end_asked.done():
            self._end_asked.set_exception(failure)

    async def _end(self, life: "_Life", *, cleanly: bool) -> None:
        node_id = life.config.node_id
        if self._lives.get(node_id) is not life:
            return
        await (life.node.stop() if cleanly else life.node.kill())
        if life.watch is not None:
            await life.watch
        life.disk.close()
        if self._lives.get(node_id) is life:
            del self._lives[node_id]

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure = f"{type(self._failure).__name__}: {self._failure}"
            raise BrokerFailed(f"the broker ended by itself: {failure}") from self._failure


class _Life:
    """One life of one node."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.disk = RealDisk()
        world = World(
            clock=RealClock(),
            entropy=RealEntropy(),
            disk=self.disk,
            network=TcpNetwork(),
            offload=Inline(self.disk),
            boot_id=read_boot_id(),
        )
        self.node: Node = build(world, config)
        self.watch: asyncio.Task[None] | None = None

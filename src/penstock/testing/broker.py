"""A broker in this process: its own thread, its own event loop, a directory that goes with it.

The process belongs to somebody else. So no signal, no loop policy, no limit of it is touched; long
work runs inline; and when the node ends itself over a failed assertion, the process goes on: the
error waits for the end of the `with` block, and is raised there.
"""

import asyncio
import itertools
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from penstock.client.admin.admin import BROKERS_DECIDE, Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.world.disk import RealDisk
from penstock.world.ports import Address, World
from penstock.world.real import real_world

Result = TypeVar("Result")

NODE_ID = NodeId(1)
WAIT_SECONDS_MAX = 30.0
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.two.phase.commit.enable": "true",
    # Records of tests have dates of long ago. Who tests retention sets how often it looks for them.
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}


class BrokerFailed(PenstockError):
    """The broker ended by itself; the cause is what ended it."""


class Broker:
    """A running broker, as a test sees it. Made by `running_broker`."""

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        self.data = data
        self._settings = parse_broker({**SETTINGS, **settings})
        self._disk = RealDisk()
        self._world = replace(real_world(inline=True), disk=self._disk)
        self._names = itertools.count(1)
        self._addresses: tuple[Address, ...] = ()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock broker", daemon=True)

    @property
    def bootstrap(self) -> str:
        """Where clients connect: HOST:PORT."""
        return ",".join(map(str, self._addresses))

    def topic(self, name: str | None = None, partitions: int = 1, **settings: object) -> str:
        """Makes a topic and returns its name; settings by Kafka's names, with underscores."""
        new = NewTopic(
            name=name or f"topic-{next(self._names)}",
            partitions=partitions,
            replicas=BROKERS_DECIDE,
            settings={key.replace("_", "."): _text(value) for key, value in settings.items()},
        )
        self._call(_create(self._world, self._addresses, new))
        return new.name

    def start(self) -> None:
        """Returns when clients can produce; raises what kept it from that."""
        self._thread.start()
        if not self._ready.wait(WAIT_SECONDS_MAX):
            raise BrokerFailed(f"the broker was not ready within {WAIT_SECONDS_MAX} s")
        self._raise_failure()

    def stop(self) -> None:
        """Stops it cleanly. Raises BrokerFailed when it had ended by itself before."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_SECONDS_MAX)
        if self._thread.is_alive():
            raise BrokerFailed(f"the broker did not stop within {WAIT_SECONDS_MAX} s")
        self._raise_failure()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._live())
        except BaseException as failure:  # it ends the node here, and is told in `stop`
            self._failure = failure
        finally:
            self._disk.close()
            self._ready.set()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        config = NodeConfig(node_id=NODE_ID, data_directory=str(self.data), settings=self._settings)
        node = build(self._world, config)
        await node.start()
        self._addresses = node.addresses
        self._ready.set()
        failed = asyncio.ensure_future(node.failed())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((failed, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not failed.done():
            await node.stop()
        failure = await failed
        if failure is not None:
            raise failure

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine on the broker's loop and waits for it here."""
        assert self._loop is not None
        if not self._thread.is_alive():
            work.close()
            self._raise_failure()
            raise BrokerFailed("the broker was stopped")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS_MAX)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure = f"{type(self._failure).__name__}: {self._failure}"
            raise BrokerFailed(f"the broker ended by itself: {failure}") from self._failure


@contextmanager
def running_broker(
    *, settings: Mapping[str, str] | None = None, data: Path | None = None
) -> Iterator[Broker]:
    """A broker for the length of a `with` block; `settings` by Kafka's names.

    Its records are gone afterwards, unless they are stored in a `data` directory of the caller's.
    """
    own = Path(tempfile.mkdtemp(prefix="penstock-")) if data is None else None
    broker = Broker(data or own or Path(), settings or {})
    try:
        broker.start()
        yield broker
    finally:
        try:
            broker.stop()
        finally:
            if own is not None:
                shutil.rmtree(own, ignore_errors=True)


async def _create(world: World, addresses: tuple[Address, ...], topic: NewTopic) -> None:
    async with Cluster(world.network, world.clock, addresses) as cluster:
        first_refusal((await Admin(cluster).create_topics([topic])).values())


def _text(value: object) -> str:
    """A setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)

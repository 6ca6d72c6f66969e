"""A node on its own loop in its own thread, so that blocking clients of any kind can drive it."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.world.ports import Disk
from penstock.world.real import real_world
from rig.broker import NO_RETENTION_ROUND

Result = TypeVar("Result")
WAIT_S_MAX = 120


class RunningNode:
    """`run` executes a coroutine on the node's loop and waits for it."""

    def __init__(
        self, data: Path, settings: Mapping[str, str], *, disk: Disk | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="node under test")
        self._thread.start()
        values = {"listeners": "PLAINTEXT://127.0.0.1:0", **NO_RETENTION_ROUND, **settings}
        with self._loop_ended_on_error():
            config = NodeConfig(
                node_id=NodeId(1), data_directory=str(data), settings=parse_broker(values)
            )
            self.node: Node = self.run(self._build(config, disk))

    @property
    def bootstrap(self) -> str:
        return str(self.node.addresses[0])

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S_MAX)

    def stop(self) -> None:
        """Cleanly; the loop ends with it."""
        self.run(self.node.stop())
        self._end_loop()

    def start(self) -> None:
        with self._loop_ended_on_error():
            self.run(self.node.start())

    @contextmanager
    def _loop_ended_on_error(self) -> Iterator[None]:
        """Its thread would keep the tests' process from ending."""
        try:
            yield
        except BaseException:
            self._end_loop()
            raise

    def _end_loop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(WAIT_S_MAX)
            self._loop.close()

    @staticmethod
    async def _build(config: NodeConfig, disk: Disk | None) -> Node:
        world = real_world(inline=True)
        return build(world if disk is None else replace(world, disk=disk), config)


@contextmanager
def running_node(data: Path, *, disk: Disk | None = None, **settings: str) -> Iterator[RunningNode]:
    """Settings by Kafka's names, with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    node = RunningNode(data, named, disk=disk)
    node.start()
    try:
        yield node
    finally:
        node.stop()

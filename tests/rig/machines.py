"""Simulated machines for tests of the simulated world itself: no node, no clients, no faults."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from penstock.node.config import NodeConfig
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.sim_cluster import SimCluster
from penstock.sim.sim_node import SimNode
from penstock.sim.sim_process import Main, SimProcess
from penstock.world.ports import Address, Stream, World
from penstock.world.tasks import TaskGroup

PORT = 9092


class Machines(SimCluster):
    """Processes of a test's own on machines that are there once they are named."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(SimLoop(), seed)  # type: ignore[abstract]
        self.processes: dict[str, SimProcess] = {}
        self._group: TaskGroup | None = None

    def run(self, scenario: Callable[["Machines"], Coroutine[Any, Any, None]]) -> None:
        async def work() -> None:
            async with TaskGroup() as group:
                self._group = group
                await scenario(self)
                group.cancel()

        try:
            self.loop.run_until_complete(work())
        finally:
            self.loop.close()

    def start_node(self, name: str, properties: NodeConfig | dict[str, str]) -> SimNode:
        """A real node, kept alive until the scenario ends."""
        assert self._group is not None
        node = self.add_node(name, properties)
        self._group.start(node.keep_alive(), name=name)
        return node

    def world(self, name: str) -> World:
        """The ports of a process on that machine, which no fault ends."""
        return self.host(name).world(KillSwitch())

    def start(self, name: str, main: Main) -> SimProcess:
        """A process on the machine of that name, kept alive until the scenario ends."""
        assert self._group is not None
        process = self.processes[name] = SimProcess(self.host(name), main, trace=self.trace)
        self._group.start(process.keep_alive(), name=name)
        return process


def address(host: str, port: int = PORT) -> Address:
    return Address(host=host, port=port)


async def receive(stream: Stream, count: int) -> bytes:
    """So many bytes, or fewer at the stream's end."""
    data = b""
    while len(data) < count:
        view = memoryview(bytearray(count - len(data)))
        got = await stream.receive_into(view)
        if got == 0:
            break
        data += view[:got]
    return data


@asynccontextmanager
async def listening(
    world: World, serve: Callable[[Stream], Coroutine[Any, Any, None]], *, port: int = PORT
) -> AsyncIterator[TaskGroup]:
    """Serves every connection to this machine with a task of its own."""
    async with TaskGroup() as group:
        listener = await world.network.bind(address("0.0.0.0", port))
        listener.listen(lambda stream: _serve(group, serve, stream))
        yield group


def _serve(
    group: TaskGroup, serve: Callable[[Stream], Coroutine[Any, Any, None]], stream: Stream
) -> None:
    group.start(serve(stream), name=f"serve {stream.peer}")


async def for_ever(world: World) -> None:
    await asyncio.Event().wait()

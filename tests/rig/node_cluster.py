"""Several nodes as one cluster, on one loop and real connections."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenNode, build
from penstock.node.cluster_layout import LaidOutNode, lay_out, plan_layout, port_count, write_layout
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.world.disk import RealDisk
from penstock.world.ports import Address
from penstock.world.real import real_world

WAIT_S = 60
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class NodeCluster:
    """`running` are those that have not been stopped or killed. `disks` are where the partitions of
    each node are, by its number, if not beside its metadata. `changed` goes before what a layout
    says.
    """

    def __init__(
        self,
        path: Path,
        count: int,
        *,
        disks: Mapping[int, Path] | None = None,
        changed: Mapping[str, str] | None = None,
        **settings: str,
    ) -> None:
        self.running: dict[int, Node] = {}
        given = {name.replace("_", "."): value for name, value in settings.items()}
        world = real_world(inline=True)
        with ExitStack() as held:
            sockets = [
                held.enter_context(socket.create_server(("127.0.0.1", 0)))
                for _ in range(port_count(count))
            ]
            ports = [one.getsockname()[1] for one in sockets]
            laid_out = lay_out(count, data_directory=str(path), ports=ports, settings=given)
            if disks is not None:
                laid_out = tuple(_on_disk(one, disks[one.node_id]) for one in laid_out)
            laid_out = tuple(
                replace(one, settings={**one.settings, **(changed or {})}) for one in laid_out
            )
            planned = plan_layout(
                laid_out,
                cluster_id=CLUSTER_ID,
                random_bytes=world.entropy.random_bytes,
                now_ms=world.clock.now_ms(),
            )
            write_layout(RealDisk(), laid_out, planned)
        self._configs = {
            int(one.node_id): NodeConfig(
                node_id=NodeId(one.node_id),
                data_directory=str(path),
                settings=parse_broker(one.settings),
            )
            for one in laid_out
        }

    def change_settings(self, changed: Mapping[str, str], *numbers: int) -> None:
        """Of these nodes, or all, from their next start on."""
        for number in numbers or tuple(self._configs):
            config = self._configs[number]
            given = {**config.settings.given, **changed}
            self._configs[number] = replace(config, settings=parse_broker(given))

    def metadata_directory(self, number: int) -> Path:
        return Path(self._configs[number].metadata_directory)

    @property
    def bootstrap(self) -> str:
        return ",".join(str(node.addresses[0]) for node in self.running.values())

    def address(self, number: int) -> Address:
        return self.running[number].addresses[0]

    def inside(self, number: int) -> OpenNode:
        inside = self.running[number]._running
        assert isinstance(inside, OpenNode)
        return inside

    async def start(self, *numbers: int) -> None:
        nodes = {one: build(real_world(inline=True), self._configs[one]) for one in numbers}
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(node.start() for node in nodes.values()))
        self.running.update(nodes)

    async def stop(self, number: int) -> None:
        await self.running.pop(number).stop()

    async def kill(self, number: int) -> None:
        await self.running.pop(number).kill()

    async def active(self) -> int:
        """The number of the active controller, once there is one."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for number in self.running:
                    if self.inside(number).local.is_active:
                        return number
                await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[Image], bool]) -> None:
        """Until it has held on every node that runs, as far as its metadata goes; an AssertionError
        names the node on which it does not.
        """
        for number in list(self.running):
            local = self.inside(number).local
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    while not condition(local.image):
                        await local.change()
            assert condition(local.image), f"node {number} after {WAIT_S} s: {local.image}"

    async def create_topic(
        self, name: str, *, through: int, partitions: int = 3, replicas: int = 1
    ) -> None:
        world = real_world(inline=True)
        async with Cluster(world.network, world.clock, [self.address(through)]) as cluster:
            topic = NewTopic(name=name, partitions=partitions, replicas=replicas)
            first_refusal((await Admin(cluster).create_topics([topic])).values())


@asynccontextmanager
async def node_cluster(
    path: Path,
    count: int = 3,
    *,
    disks: Mapping[int, Path] | None = None,
    changed: Mapping[str, str] | None = None,
    **settings: str,
) -> AsyncIterator[NodeCluster]:
    cluster = NodeCluster(path, count, disks=disks, changed=changed, **settings)
    await cluster.start(*range(1, count + 1))
    try:
        yield cluster
    finally:
        for number in list(cluster.running):
            await cluster.kill(number)


def _on_disk(node: LaidOutNode, disk: Path) -> LaidOutNode:
    moved = {"metadata.log.dir": node.directory, "log.dirs": str(disk)}
    return replace(node, settings={**node.settings, **moved})

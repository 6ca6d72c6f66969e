"""A cluster of real nodes grows to many partitions, and loses nodes; what that takes is measured.

    grow        topics are created through the protocol, up to each size
    idle        a while in which nobody asks for anything
    changes     single changes of the metadata, one after the other
    metadata    image, snapshot and disk
    losses      a node goes; its leaders must be elsewhere for all others; it comes back

Nodes are whole: controllers, brokers, logs and fetchers are those of `penstock serve`, on virtual
time. Partitions hold no records. The CPU time of each node is real (`metered_loop`); the collector
of Python is off while something is measured, since ten nodes share one heap here. Start reading
at `run_scale`.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.configs import Change as ConfigChange
from penstock.client.admin.configs import Resource, alter_configs
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.configs import Operation, ResourceKind
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.node.build import OpenNode
from penstock.sim.cluster.layout import address, configs, format_nodes, machines
from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.host import Crash
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.scale.figures import Change, ChangeCost, Loss, LossCost, SizeFigures
from penstock.sim.scale.metadata_size import NS_PER_MS, metadata_size
from penstock.sim.scale.metered_loop import MeteredLoop
from penstock.sim.sim_cluster import SimCluster
from penstock.sim.verdict import verdict_of
from penstock.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from penstock.world.tasks import TaskGroup

VOTERS_MAX = 3
SMALLER_SIZES = (1_000, 10_000)  # measured on the way to a larger one
PARTITIONS_A_TOPIC = 100
CHANGES = 15  # of each kind
IDLE_S = 20
WAIT_S = 600  # virtual
LOOK_S = 0.001
SLOW_LOOK_S = 0.1  # for what walks over all partitions
RULES = ClusterRules(request_ms_max=60_000)
SCRATCH = "scratch"

Told = Callable[[str, int, int], None]  # what is done, how far it is, and how far it goes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    nodes: int
    partitions: int
    replicas: int
    seed: int = 1

    def __post_init__(self) -> None:
        assert 0 < self.replicas <= self.nodes, self
        assert self.nodes >= VOTERS_MAX, self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Where it is measured."""
        return *(size for size in SMALLER_SIZES if size < self.partitions), self.partitions


def run_scale(plan: ScalePlan, told: Told) -> list[SizeFigures]:
    """The figures of each size. Violation when the cluster does not do what it must."""
    loop = MeteredLoop()  # type: ignore[abstract]  # what it lacks, nobody may call
    run = ScaleRun(loop, plan, told)
    with _collector_off():
        violation = verdict_of(loop, run.cluster.trace, run.measure())
    if violation is not None:
        raise Violation("scale", violation)
    return run.figures


class ScaleRun:
    def __init__(self, loop: MeteredLoop, plan: ScalePlan, told: Told) -> None:
        self.cluster = SimCluster(loop, plan.seed)
        self.figures: list[SizeFigures] = []
        self._loop = loop
        self._plan = plan
        self._told = told
        self._hosts = machines(plan.nodes)
        self._configs = configs(plan.nodes, {}, voters=VOTERS_MAX)
        self._topics = 0
        self._silent: NodeId | None = None  # the node that is away

    async def measure(self) -> None:
        async with TaskGroup() as group:
            self._told("start", 0, self._plan.nodes)
            format_nodes(self.cluster, self._configs, stream(self._plan.seed, "formatting"))
            for host, config in self._configs.items():
                group.start(self.cluster.add_node(host, config).keep_alive(), name=host)
            for done, node in enumerate(self.cluster.nodes.values(), 1):
                await node.up.wait()
                self._told("start", done, self._plan.nodes)
            addresses = [address(host) for host in self._hosts.values()]
            async with self.cluster.client("operator", addresses, rules=RULES) as client:
                for size in self._plan.sizes:
                    self.figures.append(await self._measure_at(size, client))
            group.cancel()

    async def _measure_at(self, size: int, client: Cluster) -> SizeFigures:
        before, cpu = self._count(), self._loop.cpu_ns()
        await self._grow(size, client)
        grown = self._since(cpu)
        _collect()
        idle_cpu = await self._idle(size)
        changes = {kind: await self._cost_of(kind, size, client) for kind in Change}
        self._told(f"{size:,} partitions: metadata", 0, 1)
        controller = self._controller()
        metadata = metadata_size(
            self._image(controller),
            voter=self.cluster.hosts[controller].file_system,
            metadata_log=f"{self._configs[controller].metadata_directory}/{METADATA_TOPIC}-0",
            scratch=self.cluster.host(SCRATCH).world(KillSwitch()).disk,
            directory=f"/{SCRATCH}",
        )
        whole = size == self._plan.partitions
        kinds = tuple(Loss) if whole else (Loss.KILLED,)
        losses = {kind: await self._lose(kind, size) for kind in kinds}
        return SizeFigures(
            partitions=size,
            topics=self._topics,
            create_cpu_ms=sum(grown.values()) / NS_PER_MS / (size - before),
            idle_cpu=idle_cpu,
            metadata=metadata,
            changes=changes,
            losses=losses,
        )

    # Steps

    async def _grow(self, size: int, client: Cluster) -> None:
        begun = made = self._count()
        while made < size:
            self._told(f"{size:,} partitions: create", made - begun, size - begun)
            count = min(PARTITIONS_A_TOPIC, size - made)
            await self._create(count, client)
            made += count
        await self._until(lambda: all(self._count(one) == size for one in self._running()))

    async def _create(self, partitions: int, client: Cluster) -> None:
        self._topics += 1
        wanted = NewTopic(
            name=f"topic-{self._topics:06}", partitions=partitions, replicas=self._plan.replicas
        )
        first_refusal((await Admin(client).create_topics([wanted])).values())

    async def _idle(self, size: int) -> float:
        """The share of a core that one node takes on average."""
        self._told(f"{size:,} partitions: idle", 0, 1)
        cpu = self._loop.cpu_ns()
        await asyncio.sleep(IDLE_S)
        return sum(self._since(cpu).values()) / len(self._hosts) / (IDLE_S * 1_000_000_000)

    async def _cost_of(self, kind: Change, size: int, client: Cluster) -> ChangeCost:
        controller_ns: list[float] = []
        other_ns: list[float] = []
        for number in range(CHANGES + 1):
            self._told(f"{size:,} partitions: {kind.value}", number, CHANGES)
            change = self._prepared(kind, number, client)
            controller, cpu = self._controller(), self._loop.cpu_ns()
            await change()
            await self._until(self._all_know_it)
            taken = self._since(cpu)
            if number > 0:  # the first one compiles methods
                controller_ns.append(taken.pop(controller))
                other_ns.append(sum(taken.values()) / (len(self._hosts) - 1))
        # Leaders take the replicas in again that an AlterPartition has put out of sync.
        await self._until(self._all_in_sync, look_s=SLOW_LOOK_S)
        return ChangeCost(
            controller_cpu_ms=min(controller_ns) / NS_PER_MS,
            other_cpu_ms=min(other_ns) / NS_PER_MS,
        )

    def _prepared(
        self, kind: Change, number: int, client: Cluster
    ) -> Callable[[], Awaitable[object]]:
        match kind:
            case Change.CREATE_TOPIC:
                return lambda: self._create(1, client)
            case Change.ALTER_CONFIG:
                topic = Resource(ResourceKind.TOPIC, f"topic-{number + 1:06}")
                change = ConfigChange(
                    name="retention.ms", operation=Operation.SET, value=str(self._loop.now_us)
                )
                return lambda: self._alter(client, topic, change)
            case Change.ALTER_PARTITION:
                return self._shrink()

    async def _alter(self, client: Cluster, topic: Resource, change: ConfigChange) -> None:
        first_refusal((await alter_configs(client, {topic: [change]})).values())

    def _shrink(self) -> Callable[[], Awaitable[object]]:
        """The leader of a partition, which is not on the controller's node, asks for an in-sync set
        without one of its followers.
        """
        controller = self._controller()
        image = self._image(controller)
        leader, topic_id, index, partition = next(
            (one.leader, topic.topic_id, index, one)
            for topic in image.topics_by_id.values()
            for index, one in enumerate(topic.partitions)
            if one.leader is not None
            and self._hosts[one.leader] != controller
            and len(one.isr) == len(one.replicas)
        )
        assert leader is not None
        leaves = next(node for node in reversed(partition.replicas) if node != leader)
        stays = [node for node in partition.isr if node != leaves]
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=image.brokers[leader].epoch,
            topics=[
                AlterPartitionTopic(
                    topic_id=topic_id,
                    partitions=[
                        AlterPartitionData(
                            partition_index=index,
                            leader_epoch=partition.leader_epoch,
                            new_isr_with_epochs=[BrokerState(broker_id=node) for node in stays],
                            partition_epoch=partition.partition_epoch,
                        )
                    ],
                )
            ],
        )
        node = self.cluster.nodes[self._hosts[leader]]

        async def ask() -> None:
            asked = node.host.start(
                f"{node.label} {node.lives}",
                self._parts(node.label).controller.ask(request),
                name="AlterPartition",
            )
            [altered] = (await asked).topics[0].partitions
            if altered.error_code or list(altered.isr) != stays:
                raise Violation("scale", f"the in-sync set was not changed: {altered}")

        return ask

    async def _lose(self, kind: Loss, size: int) -> LossCost:
        self._told(f"{size:,} partitions: {kind.value}", 0, 2)
        lost = self._victim(kind)
        host, node = self._hosts[lost], self.cluster.nodes[self._hosts[lost]]
        led, replicas = self._held(lost)
        node.keep_down()
        began_us, cpu = self._loop.now_us, self._loop.cpu_ns()
        self._silent = lost
        node.crash(Crash.POWER_LOSS if kind is Loss.SILENT else Crash.KILL)
        await self._until(lambda: all(self._leads_nothing(lost, one) for one in self._running()))
        elsewhere_ms = (self._loop.now_us - began_us) / 1000
        taken = self._since(cpu)
        taken.pop(host, None)
        controller_ns = taken.pop(self._controller())
        self._told(f"{size:,} partitions: {kind.value}", 1, 2)
        cpu = self._loop.cpu_ns()
        node.let_start()
        await self._until(node.up.is_set)
        self._silent = None
        await self._until(self._all_in_sync, look_s=SLOW_LOOK_S)
        back = self._since(cpu)
        _collect()
        return LossCost(
            led=led,
            replicas=replicas,
            elsewhere_ms=elsewhere_ms,
            controller_cpu_ms=controller_ns / NS_PER_MS,
            busiest_cpu_ms=max(taken.values()) / NS_PER_MS,
            back_cpu_ms=sum(back.values()) / NS_PER_MS,
        )

    def _victim(self, kind: Loss) -> NodeId:
        """The active controller's node, or of the others the one that leads most."""
        controller = self._controller()
        is_active = {node_id: host == controller for node_id, host in self._hosts.items()}
        wanted = kind is Loss.CONTROLLER
        candidates = (node_id for node_id, active in is_active.items() if active == wanted)
        return max(candidates, key=lambda node_id: (self._held(node_id)[0], node_id))

    # Queries

    def _running(self) -> Iterator[str]:
        return (host for node_id, host in self._hosts.items() if node_id != self._silent)

    def _parts(self, host: str) -> OpenNode:
        parts = self.cluster.nodes[host].parts
        if parts is None or parts.broker is None:
            raise Violation("scale", f"{host} does not run")
        return parts

    def _image(self, host: str) -> Image:
        """As the clients of that node are told."""
        broker = self._parts(host).broker
        assert broker is not None
        return broker.services.image

    def _controller(self) -> str:
        """The machine of the active controller."""
        active = [host for host in self._running() if self._parts(host).local.is_active]
        if len(active) != 1:
            raise Violation("scale", f"active controllers: {', '.join(active) or 'none'}")
        return active[0]

    def _count(self, host: str | None = None) -> int:
        """The partitions that there are."""
        image = self._image(host or next(self._running()))
        return sum(len(topic.partitions) for topic in image.topics_by_id.values())

    def _held(self, node_id: NodeId) -> tuple[int, int]:
        """How many partitions a node leads, and how many it has a replica of."""
        partitions = list(_partitions(self._image(self._controller())))
        return (
            sum(one.leader == node_id for one in partitions),
            sum(node_id in one.replicas for one in partitions),
        )

    def _all_know_it(self) -> bool:
        ends = {self._parts(host).local.image.offset for host in self._running()}
        return len(ends) == 1

    def _all_in_sync(self) -> bool:
        if not self._all_know_it():
            return False
        image = self._image(next(self._running()))
        return all(
            one.leader is not None and len(one.isr) == len(one.replicas)
            for one in _partitions(image)
        )

    def _leads_nothing(self, lost: NodeId, host: str) -> bool:
        image = self._image(host)
        return image.brokers[lost].fenced and all(
            one.leader not in (lost, None) for one in _partitions(image)
        )

    def _since(self, cpu: Counter[str | None]) -> Counter[str | None]:
        """The CPU time of each node since then."""
        now = self._loop.cpu_ns()
        return Counter({host: now[host] - cpu[host] for host in self._hosts.values()})

    async def _until(self, condition: Callable[[], bool], *, look_s: float = LOOK_S) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                while not condition():  # noqa: ASYNC110 - nothing signals it
                    await asyncio.sleep(look_s)
        except TimeoutError:
            raise Violation("scale", f"not done within {WAIT_S} virtual seconds") from None


def _partitions(image: Image) -> Iterable[PartitionImage]:
    return (one for topic in image.topics_by_id.values() for one in topic.partitions)


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def _collect() -> None:
    gc.collect()
    gc.freeze()  # the next one looks at what has come since

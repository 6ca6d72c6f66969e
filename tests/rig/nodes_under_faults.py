"""Three real nodes under a plan of faults, each a cluster of its own with a producer beside it.

What a node acked lies in its log when the faults have ended: topics sync before they ack, so also
after a power loss.
"""

import asyncio
from dataclasses import dataclass

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.model.identity import TopicPartition
from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.fault_plan import FaultLimits, FaultPlan, draw_plan
from penstock.sim.host_faults import HostFaults, require_healthy
from penstock.sim.reading import read_all
from penstock.sim.seed_figures import SeedFigures
from penstock.sim.sim_cluster import CLIENT_RULES
from penstock.sim.sim_process import SimProcess
from penstock.sim.verdict import verdict_of
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup
from rig.machines import Machines, address

NODES = ("node-1", "node-2", "node-3")
ORDERS = TopicPartition("orders", 0)
SETTINGS = {"penstock.ack.fsync": "true", "internal.segment.bytes": "2000"}
PRODUCER_RULES = ProducerRules(
    request_ms_max=3_000, batches=BatchRules(linger_ms=5, delivery_ms_max=8_000, backoff_ms=50)
)
LIMITS = FaultLimits(first_ms=1_000, last_ms=20_000, length_ms_max=5_000)
PAUSE_S = 0.1
HEALTHY_MS = 60_000


class Writer:
    """A client process that produces to one node until it is told to end."""

    def __init__(self, name: str) -> None:
        self.host = f"client-of-{name}"
        self.acked: dict[int, bytes] = {}  # by offset
        self.ending = False
        self._name = name
        self._sent = 0

    async def main(self, world: World) -> None:
        there = [address(self._name)]
        async with Cluster(world.network, world.clock, there, rules=CLIENT_RULES) as cluster:
            while not self.ending:
                try:
                    await self._write(cluster)
                except ClientError:
                    await asyncio.sleep(PAUSE_S)

    async def _write(self, cluster: Cluster) -> None:
        async with Producer(cluster, rules=PRODUCER_RULES) as producer:
            while not self.ending:
                self._sent += 1
                value = b"%d" % self._sent
                told = await (await producer.send(ORDERS.topic, value))
                assert told.offset is not None
                if self.acked.get(told.offset, value) != value:
                    raise Violation("offsets", f"{self._name} gave {told.offset} twice")
                self.acked[told.offset] = value
                await asyncio.sleep(PAUSE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    violation: str | None
    figures: SeedFigures
    trace_hash: str


def simulate(seed: int, *, limits: FaultLimits = LIMITS) -> Run:
    machines = Machines(seed)
    plan = draw_plan(stream(seed, "plan of faults"), NODES, limits)
    writers = {name: Writer(name) for name in NODES}
    work = _scenario(machines, writers, plan)
    violation = verdict_of(machines.loop, machines.trace, work)
    return Run(
        violation=violation,
        figures=SeedFigures(
            seed=seed,
            virtual_ms=machines.loop.now_us // 1000,
            leader_changes=0,
            acked=sum(len(writer.acked) for writer in writers.values()),
            steps=machines.loop.steps,
            faults=plan.count_by_kind,
        ),
        trace_hash=machines.trace.hash,
    )


async def _scenario(machines: Machines, writers: dict[str, Writer], plan: FaultPlan) -> None:
    async with TaskGroup() as group:
        for name in NODES:
            properties = {
                "node.id": name.removeprefix("node-"),
                "listeners": f"PLAINTEXT://{address(name)}",
            }
            group.start(machines.add_node(name, properties).keep_alive(), name=name)
        for name in NODES:
            await machines.nodes[name].up.wait()
            await _make_topic(machines, name)
        for writer in writers.values():
            process = SimProcess(machines.host(writer.host), writer.main, trace=machines.trace)
            group.start(process.keep_alive(), name=writer.host)
        group.start(_inspect(machines), name="inspect")
        faults = HostFaults(
            targets=machines.nodes,
            bystanders=tuple(writer.host for writer in writers.values()),
            wire=machines.wire,
            trace=machines.trace,
            chance=stream(machines.seed, "faults"),
        )
        await faults.carry_out(plan)
        await _require_progress(writers)
        for name, writer in writers.items():
            writer.ending = True
            await _judge(machines, name, writer)
        group.cancel()


async def _make_topic(machines: Machines, name: str) -> None:
    async with machines.client("setup", [address(name)]) as cluster:
        new = NewTopic(name=ORDERS.topic, partitions=1, settings=SETTINGS)
        first_refusal((await Admin(cluster).create_topics([new])).values())


async def _inspect(machines: Machines) -> None:
    while True:
        await asyncio.sleep(0.1)
        machines.check()
        if machines.loop.failures:
            raise machines.loop.failures[0]


async def _require_progress(writers: dict[str, Writer]) -> None:
    before = {name: len(writer.acked) for name, writer in writers.items()}

    async def what_lacks() -> str | None:
        idle = [name for name, writer in writers.items() if len(writer.acked) == before[name]]
        return f"{idle} ack nothing" if idle else None

    await require_healthy(what_lacks, within_ms=HEALTHY_MS)


async def _judge(machines: Machines, name: str, writer: Writer) -> None:
    async with machines.client("judge", [address(name)]) as cluster:
        logs = await read_all(cluster, [ORDERS], compacted=frozenset(), partition_bytes_max=1 << 20)
    found = {record.offset: record.value for record in logs[0].records}
    for offset, value in writer.acked.items():
        if found.get(offset) != value:
            raise Violation("lost records", f"{name}: {value!r} was acked at {offset}")

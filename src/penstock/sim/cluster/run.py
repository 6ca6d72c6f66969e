"""One seed of a cluster from beginning to end: nodes, clients, faults, and the verdict.

    set up      machines are formatted, nodes start, the first topic is made
    trouble     clients work while faults strike
    recovery    faults end; every node, topic and partition must be served again in bounded time
    judgement   images and records are compared with what clients were told; in some seeds again
                after all machines have lost power

Start reading at `run_seed`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.network.errors import Refused
from penstock.metadata.image.image import Image
from penstock.model.identity import TopicPartition
from penstock.sim.checker.answers import check_answers
from penstock.sim.cluster.clients import (
    AdminClient,
    Client,
    ReaderClient,
    WriterClient,
)
from penstock.sim.cluster.coordinated_clients import CommitterClient, TransactionClient
from penstock.sim.cluster.flaws import ClusterFlaw, planted
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.judgement import (
    judge_commits,
    judge_images,
    judge_records,
    judge_transactions,
    missing_brokers,
    missing_service,
    open_transactions,
)
from penstock.sim.cluster.layout import address, configs, format_nodes, machines
from penstock.sim.cluster.probing import probe
from penstock.sim.cluster.scenario import LASTING, ORDERS, PAYMENTS, ClusterScenario, draw
from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.fault_plan import DISABLING, FaultPlan, HostFaultKind, PlannedFault
from penstock.sim.host import Crash
from penstock.sim.host_faults import HostFaults, require_healthy
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.seed_figures import WORTH, SeedFigures
from penstock.sim.sim_cluster import SimCluster
from penstock.sim.sim_process import SimProcess
from penstock.sim.trace import Trace
from penstock.sim.verdict import verdict_of
from penstock.world.tasks import TaskGroup

INSPECT_MS = 100
START_MS_MAX = 200_000  # a node may wait for the others, which may all have been struck
HEALTHY_MS = 60_000
ANSWER_MS_MAX = 12_000  # forwarded requests wait as long as their clients say, and for an election
SET_UP_MS = 60_000
CLIENTS_END_MS = 60_000
SERVED_MS = 60_000
STRIKES_MAX = 5  # on the leader, beyond the plan, if it was not changed often enough
STRIKE_KINDS = (HostFaultKind.KILL, HostFaultKind.STOP, HostFaultKind.POWER_LOSS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutcome:
    seed: int
    violation: str | None
    figures: SeedFigures
    trace: Trace


def run_seed(
    seed: int,
    *,
    nodes: int = 3,
    replicas: int | None = None,
    flaw: ClusterFlaw | None = None,
    scenario: ClusterScenario | None = None,
    log_lines: bool = False,
) -> ClusterOutcome:
    """Runs one simulation. Same seed, same code: same trace, in any process."""
    loop = SimLoop()  # type: ignore[abstract]  # what it lacks, nobody may call
    simulation = ClusterSimulation(loop, scenario or draw(seed, nodes=nodes, replicas=replicas))
    trace = simulation.cluster.trace
    with planted(flaw):
        violation = verdict_of(loop, trace, simulation.run(), log_lines=log_lines)
    return ClusterOutcome(seed=seed, violation=violation, figures=simulation.figures(), trace=trace)


class ClusterSimulation:
    def __init__(self, loop: SimLoop, scenario: ClusterScenario) -> None:
        self.scenario = scenario
        self.history = ClusterHistory()
        self.cluster = SimCluster(loop, scenario.seed)
        self.inspection = Inspection(self.cluster.nodes)
        self._loop = loop
        self._chance = stream(scenario.seed, "faults of a cluster")
        self._hosts = machines(scenario.nodes)  # by node
        self._clients: list[Client] = []
        self._processes: dict[str, SimProcess] = {}
        self._faults: dict[str, int] = {}  # by kind, those that struck

    def figures(self) -> SeedFigures:
        return SeedFigures(
            seed=self.scenario.seed,
            virtual_ms=self._loop.now_us // 1000,
            leader_changes=self.inspection.leader_changes,
            acked=self.history.acks,
            steps=self._loop.steps,
            faults=dict(sorted(self._faults.items())),
        )

    def image_of(self, host: str) -> Image | None:
        """As its clients see it; None while they are not served."""
        node = self.cluster.nodes[host]
        if node.parts is None or node.parts.broker is None or not node.up.is_set():
            return None
        return node.parts.broker.services.image

    async def run(self) -> None:
        async with TaskGroup() as group:
            self._start_nodes(group)
            group.start(self._inspect(), name="inspect")
            await self._set_up()
            self._start_clients(group)
            await self._trouble()
            self.cluster.trace.note("fault", "no more of them")
            for node in self.cluster.nodes.values():
                node.settle()
            await self._end_clients()
            await self._judge("after the faults")
            if self.scenario.power_lost_at_end:
                await self._lose_all_power()
                await self._judge("after a power loss of all machines")
            group.cancel()

    # Set-up

    def _start_nodes(self, group: TaskGroup) -> None:
        scenario = self.scenario
        laid_out = configs(
            scenario.nodes, scenario.node_settings, voters_in_log=scenario.voters_in_log
        )
        format_nodes(self.cluster, laid_out, stream(scenario.seed, "formatting"))
        for host, config in laid_out.items():
            node = self.cluster.add_node(host, config, start_ms_max=START_MS_MAX)
            group.start(node.keep_alive(), name=host)

    async def _set_up(self) -> None:
        await require_healthy(self._missing, within_ms=SET_UP_MS)
        addresses = [address(host) for host in self._hosts.values()]
        new = [
            NewTopic(
                name=name,
                partitions=partitions,
                replicas=self.scenario.replicas,
                settings={**LASTING, "internal.segment.bytes": "3000"},
            )
            for name, partitions in (
                (ORDERS, self.scenario.orders_partitions),
                (PAYMENTS, self.scenario.nodes),
            )
        ]
        async with self.cluster.client("setup", addresses) as cluster:
            for name, told in (await Admin(cluster).create_topics(new)).items():
                if isinstance(told, Refused):
                    raise Violation("health", f"{name} is refused: {told}")

    def _start_clients(self, group: TaskGroup) -> None:
        scenario = self.scenario
        kinds: list[tuple[str, type[Client]]] = [
            *((f"admin-{number}", AdminClient) for number in range(scenario.admins)),
            *((f"writer-{number}", WriterClient) for number in range(scenario.producers)),
            ("reader", ReaderClient),
            *(
                (f"transactor-{number}", TransactionClient)
                for number in range(scenario.transactors)
            ),
            *((f"committer-{number}", CommitterClient) for number in range(scenario.committers)),
        ]
        for name, kind in kinds:
            client = kind(
                name, tuple(self._hosts.values()), history=self.history, trace=self.cluster.trace,
                chance=stream(scenario.seed, name), view=self, replicas=scenario.replicas,
            )  # fmt: skip
            self._clients.append(client)
            process = SimProcess(self.cluster.host(name), client.main, trace=self.cluster.trace)
            self._processes[name] = process
            group.start(process.keep_alive(), name=name)

    # Trouble

    async def _trouble(self) -> None:
        faults = HostFaults(
            targets=self.cluster.nodes,
            bystanders=tuple(self._processes),
            wire=self.cluster.wire,
            trace=self.cluster.trace,
            chance=self._chance,
            aim=self._aim,
        )
        await faults.carry_out(self.scenario.plan)
        for _ in range(STRIKES_MAX):
            # A seed is worth little if no leader was lost.
            await self._until(lambda: self.inspection.leader() is not None, within_ms=HEALTHY_MS)
            leader = self.inspection.leader()
            if self.inspection.leader_changes >= WORTH.leader_changes or leader is None:
                break
            fault = PlannedFault(
                kind=self._chance.choice(STRIKE_KINDS),
                start_ms=0,
                end_ms=self._chance.randint(500, 4_000),
                hosts=(leader,),
                amount=self._chance.random(),
            )
            await faults.carry_out(FaultPlan(faults=(fault,), lasts_ms=fault.end_ms + 1_000))

    def _aim(self, fault: PlannedFault) -> PlannedFault:
        """Some of the faults are for whoever leads the quorum now."""
        leader = self.inspection.leader()
        aimed = fault.kind in DISABLING and self._chance.random() < self.scenario.aimed
        if aimed and leader is not None and len(fault.hosts) == 1:
            fault = replace(fault, hosts=(leader,))
        self._faults[fault.kind.value] = self._faults.get(fault.kind.value, 0) + 1
        return fault

    async def _lose_all_power(self) -> None:
        nodes = self.cluster.nodes.values()
        lives = {node.label: node.lives for node in nodes}
        for node in nodes:
            node.crash(Crash.POWER_LOSS)
        await self._until(
            lambda: all(node.lives > lives[node.label] for node in nodes), within_ms=HEALTHY_MS
        )

    # Recovery

    async def _end_clients(self) -> None:
        """Everything is served again, to clients that have been there all along and to new ones."""
        await require_healthy(self._missing_brokers, within_ms=HEALTHY_MS)
        for client in self._clients:
            client.ending = True
        processes = self._processes.values()
        await self._until(lambda: all(one.done for one in processes), within_ms=CLIENTS_END_MS)
        running = [name for name, process in self._processes.items() if not process.done]
        if running:
            raise Violation("answers", f"{running} have not ended after {CLIENTS_END_MS} ms")

    async def _missing_brokers(self) -> str | None:
        """Clients still change topics, so images need not be equal."""
        for host in self._hosts.values():
            image = self.image_of(host)
            missing = "it is not up" if image is None else missing_brokers(image, self._hosts)
            if missing is not None:
                return f"{missing}, by {host}"
        return None

    async def _missing(self) -> str | None:
        images: dict[str, Image] = {}
        logs: dict[str, frozenset[TopicPartition]] = {}
        for host in self._hosts.values():
            image = self.image_of(host)
            if image is None:
                return f"{host} is not up"
            images[host] = image
            logs[host] = frozenset(self.cluster.nodes[host].logs)
        if self.inspection.leader() is None:
            return "nobody leads the quorum"
        return missing_service(images, logs, self._hosts)

    async def _require_service(self, when: str) -> None:
        for host in self._hosts.values():
            name = f"probe-{host}-{self._loop.now_us}"
            world = self.cluster.host("judge").world(KillSwitch())
            try:
                async with asyncio.timeout(SERVED_MS / 1000):
                    await probe(
                        world,
                        host,
                        topic=name,
                        partitions=self.scenario.nodes,
                        replicas=self.scenario.replicas,
                    )
            except TimeoutError:
                raise Violation(
                    "served", f"{when}: no topic could be used through {host} in {SERVED_MS} ms"
                ) from None

    # Judgement

    async def _judge(self, when: str) -> None:
        self.cluster.trace.note("judge", when)
        await require_healthy(self._missing, within_ms=HEALTHY_MS)
        await self._require_service(when)
        await require_healthy(self._missing, within_ms=HEALTHY_MS)
        images = {host: image for host in self._hosts.values() if (image := self.image_of(host))}
        judge_images(self.history, images)
        self.inspection.look()
        addresses = [address(host) for host in self._hosts.values()]
        async with self.cluster.client("judge", addresses) as cluster:
            await judge_records(self.history, cluster)
            if self.scenario.transactors:
                lacks = partial(open_transactions, cluster, self.scenario.nodes)
                await require_healthy(lacks, within_ms=HEALTHY_MS)
                await judge_transactions(self.history, cluster, self.scenario.nodes)
            await judge_commits(self.history, cluster)

    async def _inspect(self) -> None:
        while True:
            await asyncio.sleep(INSPECT_MS / 1000)
            self.inspection.look()
            check_answers(self.cluster.wire, answer_ms_max=ANSWER_MS_MAX)
            if self._loop.failures:
                raise self._loop.failures[0]

    async def _until(self, condition: Callable[[], bool], *, within_ms: int) -> None:
        """Whether it has become true, the caller looks again."""
        for _ in range(within_ms // INSPECT_MS):
            if condition():
                return
            await asyncio.sleep(INSPECT_MS / 1000)

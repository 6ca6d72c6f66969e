"""One seed of a cluster from beginning to end: nodes, clients, faults, and the verdict.

    set up      machines are formatted, nodes start, the first topic is made
    trouble     clients work while faults strike
    recovery    faults end; every node, topic and partition must be served again in bounded time
    judgement   images and records are compared with what clients were told; in some seeds again
                after all machines have lost power

Start reading at `run_seed`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.network.errors import ClientError, Refused
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId, TopicPartition
from penstock.node.build import OpenNode
from penstock.sim.bit_flips import flip_a_bit
from penstock.sim.checker.answers import check_answers
from penstock.sim.cluster.applications import (
    WITNESS,
    ApplicationClient,
    ApplicationStage,
    WitnessClient,
)
from penstock.sim.cluster.clients import (
    AdminClient,
    Client,
    WriterClient,
)
from penstock.sim.cluster.coordinated_clients import CommitterClient, TransactionClient
from penstock.sim.cluster.flaws import (
    COORDINATION,
    OF_GENERATION_1,
    OF_TRANSACTORS,
    REPLICATION,
    ClusterFlaw,
    planted,
)
from penstock.sim.cluster.group_members import GroupMemberClient, Ownership
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.judge import HEALTHY_MS, Judge
from penstock.sim.cluster.layout import address, configs, format_nodes, machine, machines
from penstock.sim.cluster.leader_notes import LeaderNotes
from penstock.sim.cluster.mover_client import MoverClient
from penstock.sim.cluster.operating import elect_uncleanly
from penstock.sim.cluster.pipeline_client import PipelineClient
from penstock.sim.cluster.reader_client import ReaderClient
from penstock.sim.cluster.replica_watch import ReplicaWatch
from penstock.sim.cluster.scenario import (
    ORDERS,
    PAYMENTS,
    ClusterScenario,
    draw,
    for_coordinators,
    for_generation_1,
    for_transactors,
)
from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.fault_plan import DISABLING, FaultPlan, HostFaultKind, PlannedFault
from penstock.sim.host import Crash
from penstock.sim.host_faults import HostFaults, require_healthy
from penstock.sim.loop import SimLoop
from penstock.sim.seed_figures import WORTH, SeedFigures
from penstock.sim.sim_cluster import SimCluster, Unwatched
from penstock.sim.sim_node import DIRECTORY
from penstock.sim.sim_process import SimProcess
from penstock.sim.trace import Trace
from penstock.sim.verdict import verdict_of
from penstock.world.tasks import TaskGroup

INSPECT_MS = 100
START_MS_MAX = 200_000  # a node may wait for the others, which may all have been struck
# A first batch of a transaction waits until the coordinator has answered for it, and perhaps until
# one asked before has: 10 s each. Applications wait longer, or they would end the proof.
ANSWER_MS_MAX = 25_000
SET_UP_MS = 60_000
CLIENTS_END_MS = 60_000
OPERATOR_MS = 2_000  # until an operator looks again
STRIKES_MAX = 5  # on the leader, beyond the plan, if it was not changed often enough


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutcome:
    seed: int
    violation: str | None
    figures: SeedFigures
    trace: Trace
    scenario: ClusterScenario
    clients: frozenset[str]  # by the names that they have in the trace


def run_seed(
    seed: int,
    *,
    nodes: int = 3,
    replicas: int | None = None,
    kinds: Collection[HostFaultKind] | None = None,
    flaw: ClusterFlaw | None = None,
    scenario: ClusterScenario | None = None,
    log_lines: bool = False,
) -> ClusterOutcome:
    """Runs one simulation. Same seed, same code: same trace, in any process. With these kinds of
    fault alone, if any are given.
    """
    loop = SimLoop()  # type: ignore[abstract]  # what it lacks, nobody may call
    if scenario is None:
        plain = flaw in REPLICATION
        scenario = draw(seed, nodes=nodes, replicas=replicas, kinds=kinds, plain=plain)
        if flaw in OF_GENERATION_1:
            scenario = for_generation_1(scenario)
        elif flaw in OF_TRANSACTORS:
            scenario = for_transactors(scenario)
        elif flaw in COORDINATION:
            scenario = for_coordinators(scenario)
    simulation = ClusterSimulation(loop, scenario)
    trace = simulation.cluster.trace
    with planted(flaw):
        violation = verdict_of(loop, trace, simulation.run(), log_lines=log_lines)
    return ClusterOutcome(
        seed=seed,
        violation=violation,
        figures=simulation.figures(),
        trace=trace,
        scenario=scenario,
        clients=simulation.clients,
    )


class PowerWatch(Unwatched):
    """Tells what a power loss of one machine may cost."""

    def __init__(self, simulation: "ClusterSimulation", node_id: NodeId) -> None:
        self._simulation = simulation
        self._node_id = node_id

    def life_ends(self, broker: OpenNode | None) -> None:
        simulation = self._simulation
        simulation.replica_watch.life_ended(self._node_id, now_us=simulation.now_us())
        stage = simulation.applications
        if stage is not None:
            stage.life_ended(machine(self._node_id), broker)

    def power_lost(self) -> None:
        simulation = self._simulation
        simulation.replica_watch.power_lost(self._node_id, now_us=simulation.now_us())
        simulation.records_lost()


class ClusterSimulation:
    def __init__(self, loop: SimLoop, scenario: ClusterScenario) -> None:
        self.scenario = scenario
        self.history = ClusterHistory()
        self.cluster = SimCluster(loop, scenario.seed)
        self.inspection = Inspection(self.cluster.nodes)
        self.replica_watch = ReplicaWatch(
            self.cluster.nodes,
            machines(scenario.nodes),
            self.history,
            in_sync_min=scenario.in_sync_min,
            acks_synced=scenario.acks_synced,
        )
        self.applications = (
            ApplicationStage(scenario.applications, self.cluster.nodes, self.cluster.trace)
            if scenario.applications is not None
            else None
        )
        self.judge = Judge(
            self.cluster,
            scenario,
            self.history,
            inspection=self.inspection,
            replica_watch=self.replica_watch,
            applications=self.applications,
            look=self._look,
        )
        self.ownership = Ownership(self.history)
        self._leader_notes = LeaderNotes(
            self.cluster.nodes, machines(scenario.nodes), self.cluster.trace
        )
        self._loop = loop
        self._chance = stream(scenario.seed, "faults of a cluster")
        self._hosts = machines(scenario.nodes)  # by node
        self._clients: list[Client] = []
        self._processes: dict[str, SimProcess] = {}
        self._faults: dict[str, int] = {}  # by kind, those that struck
        self._wiped = False  # a directory with records
        self._lossy = 0  # partitions that may have lost acked records by these faults

    @property
    def clients(self) -> frozenset[str]:
        return frozenset(self._processes)

    def figures(self) -> SeedFigures:
        return SeedFigures(
            seed=self.scenario.seed,
            virtual_ms=self._loop.now_us // 1000,
            leader_changes=self.inspection.leader_changes,
            acked=self.history.acks + self._coordinated_acks,
            lossy=self._lossy,
            steps=self._loop.steps,
            faults=dict(sorted(self._faults.items())),
        )

    @property
    def _coordinated_acks(self) -> int:
        if self.applications is None:
            return 0
        history = self.applications.history
        return history.acks + history.transactions.commits

    def records_lost(self) -> None:
        """Acked records may be gone: those who rely on them are told."""
        if self.applications is not None:
            self.applications.records_lost(self.history.may_have_lost)

    def image_of(self, host: str) -> Image | None:
        return self.inspection.image_of(host)

    def now_us(self) -> int:
        return self._loop.now_us

    def acked(self, place: TopicPartition, offset: int, *, sent_us: int) -> None:
        self.replica_watch.acked(place, offset, sent_us=sent_us)

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
            self._lossy = len(self.history.may_have_lost)
            await self.judge.judge("after the faults")
            if self.scenario.power_lost_at_end:
                await self._lose_all_power()
                await require_healthy(self.judge.missing_brokers, within_ms=HEALTHY_MS)
                await self._elect_by_operator()
                await self.judge.judge("after a power loss of all machines")
            group.cancel()

    # Set-up

    def _start_nodes(self, group: TaskGroup) -> None:
        scenario = self.scenario
        laid_out = configs(
            scenario.nodes, scenario.node_settings, voters_in_log=scenario.voters_in_log
        )
        format_nodes(self.cluster, laid_out, stream(scenario.seed, "formatting"))
        for host, config in laid_out.items():
            node = self.cluster.add_node(
                host, config, watch=PowerWatch(self, config.node_id), start_ms_max=START_MS_MAX
            )
            group.start(node.keep_alive(), name=host)

    async def _set_up(self) -> None:
        await require_healthy(self.judge.missing, within_ms=SET_UP_MS)
        addresses = [address(host) for host in self._hosts.values()]
        new = [
            NewTopic(
                name=name,
                partitions=partitions,
                replicas=self.scenario.replicas,
                settings=self.scenario.settings_of_lasting_topics,
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
            if self.applications is not None:
                await self.applications.set_up(cluster, replicas=self.scenario.replicas)

    def _start_clients(self, group: TaskGroup) -> None:
        scenario = self.scenario
        kinds: list[tuple[str, Callable[..., Client]]] = [
            *((f"admin-{number}", AdminClient) for number in range(scenario.admins)),
            *((f"writer-{number}", WriterClient) for number in range(scenario.producers)),
            ("reader", ReaderClient),
            *(
                (f"transactor-{number}", TransactionClient)
                for number in range(scenario.transactors)
            ),
            *((f"committer-{number}", CommitterClient) for number in range(scenario.committers)),
            *((f"mover-{number}", MoverClient) for number in range(scenario.movers)),
            *((f"pipeline-{number}", PipelineClient) for number in range(scenario.pipelines)),
            *self._coordinated_clients(),
        ]
        for name, kind in kinds:
            client = kind(
                name, tuple(self._hosts.values()), history=self.history, trace=self.cluster.trace,
                chance=stream(scenario.seed, name), view=self, scenario=scenario,
            )  # fmt: skip
            self._clients.append(client)
            process = SimProcess(self.cluster.host(name), client.main, trace=self.cluster.trace)
            self._processes[name] = process
            group.start(process.keep_alive(), name=name)

    def _coordinated_clients(self) -> Iterator[tuple[str, Callable[..., Client]]]:
        stage = self.applications
        if stage is not None:
            for name in stage.clients:
                kind = WitnessClient if name == WITNESS else ApplicationClient
                yield name, partial(kind, stage=stage)
        for plan in self.scenario.groups:
            for number in range(plan.members):
                kind_of_member = partial(GroupMemberClient, plan=plan, ownership=self.ownership)
                yield f"{plan.group}-{number}", kind_of_member

    # Trouble

    async def _trouble(self) -> None:
        faults = HostFaults(
            targets=self.cluster.nodes,
            bystanders=tuple(self._processes),
            wire=self.cluster.wire,
            trace=self.cluster.trace,
            chance=self._chance,
            aim=self._aim,
            flip=self._flip,
            wipe=self._wipe,
        )
        await faults.carry_out(self.scenario.plan)
        for _ in range(STRIKES_MAX):
            # A seed is worth little if no leader was lost.
            await self._until(lambda: self.inspection.leader() is not None, within_ms=HEALTHY_MS)
            leader = self.inspection.leader()
            kinds = self.scenario.strike_kinds
            if self.inspection.leader_changes >= WORTH.leader_changes or not (leader and kinds):
                break
            fault = PlannedFault(
                kind=self._chance.choice(kinds),
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
        if fault.kind is HostFaultKind.CUT_LINK and self._chance.random() < self.scenario.aimed:
            # Who can reach the controller goes on without the other.
            others = [host for host in self._hosts.values() if host != leader]
            if len(others) > 1:
                fault = replace(fault, hosts=tuple(self._chance.sample(others, 2)))
        self._faults[fault.kind.value] = self._faults.get(fault.kind.value, 0) + 1
        return fault

    def _flip(self, host: str) -> None:
        """In records that have other copies, all of them good."""

        def spares(place: TopicPartition) -> bool:
            return place.topic != ORDERS or self.history.damaged.get(place, host) != host

        if self._wiped:
            return  # a record may have a single good copy
        flipped = flip_a_bit(self.cluster.nodes[host], self._chance, spares, synced_only=False)
        if flipped is not None:
            self.history.damaged[flipped.partition] = host
            self.cluster.trace.note("fault", str(flipped))

    def _wipe(self, host: str) -> None:
        """The directory with the records of a machine, if others have all that is replicated."""
        node_id = next(one for one, name in self._hosts.items() if name == host)
        if self.history.damaged or not self.replica_watch.may_be_wiped(node_id):
            return
        self.cluster.trace.note("fault", f"the log directory of {host} is empty")
        self._wiped = True
        self.replica_watch.wiped(node_id, now_us=self.now_us())
        self.records_lost()
        self.cluster.nodes[host].host.file_system.wipe(f"{DIRECTORY}/{host}")

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
        await require_healthy(self.judge.missing_brokers, within_ms=HEALTHY_MS)
        await self._elect_by_operator()
        for client in self._clients:
            client.ending = True
        if self.applications is not None:
            self.applications.ending = True
        processes = self._processes.values()
        await self._until(lambda: all(one.done for one in processes), within_ms=CLIENTS_END_MS)
        running = [name for name, process in self._processes.items() if not process.done]
        if running:
            raise Violation("answers", f"{running} have not ended after {CLIENTS_END_MS} ms")

    async def _elect_by_operator(self) -> None:
        """What waits for the directory of a replica that is wiped, or for a log that is damaged: an
        operator gives its records up, as the log of the active controller asks for.
        """
        if not self._wiped and not self.history.damaged:
            return
        addresses = [address(host) for host in self._hosts.values()]
        async with self.cluster.client("operator", addresses) as cluster:
            for _ in range(HEALTHY_MS // OPERATOR_MS):
                await asyncio.sleep(OPERATOR_MS / 1000)
                waiting = [
                    place
                    for place in self.replica_watch.without_leader()
                    if self._wiped or place in self.history.damaged
                ]
                if not waiting:
                    return
                self.cluster.trace.note("operator", f"elects leaders of {waiting}")
                self.history.may_have_lost.update(waiting)
                self.records_lost()
                with suppress(ClientError):
                    await elect_uncleanly(cluster, waiting)

    async def _inspect(self) -> None:
        while True:
            await asyncio.sleep(INSPECT_MS / 1000)
            self._look()
            check_answers(self.cluster.wire, answer_ms_max=ANSWER_MS_MAX)
            if self._loop.failures:
                raise self._loop.failures[0]

    def _look(self) -> None:
        self._leader_notes.look()
        self.inspection.look()
        self.replica_watch.look()

    async def _until(self, condition: Callable[[], bool], *, within_ms: int) -> None:
        """Whether it has become true, the caller looks again."""
        for _ in range(within_ms // INSPECT_MS):
            if condition():
                return
            await asyncio.sleep(INSPECT_MS / 1000)

"""One seed from beginning to end: a node, its clients, its faults, and the verdict.

    set up      the node starts, topics are made
    trouble     clients work while faults strike
    recovery    faults end; clients finish what they began
    judgement   everything is read back and judged; then again after a clean stop and start

Start reading at `run_seed`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.configs import Change, Resource, alter_configs
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import ClientError
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.configs import Operation, ResourceKind
from penstock.model.identity import TopicPartition
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.checker.answers import check_answers
from penstock.sim.checker.commits import check_commits
from penstock.sim.checker.compaction import check_compaction
from penstock.sim.checker.contents import check_contents
from penstock.sim.checker.duplicates import check_duplicates
from penstock.sim.checker.lost_records import check_lost_records
from penstock.sim.checker.metadata import check_metadata
from penstock.sim.checker.offsets import check_offsets
from penstock.sim.checker.order import check_order
from penstock.sim.client_process import Client, Work
from penstock.sim.clients import Laboratory, administer, answered, produce, read_along
from penstock.sim.committing import commit_along
from penstock.sim.crash_points import CrashPoint, Places, Unit, draw_crash_point
from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.faults import Faults
from penstock.sim.file_system import FileSystem
from penstock.sim.history import NEVER, History
from penstock.sim.host import Host
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.one_node import ADDRESS, HistoryWatch, node_config
from penstock.sim.reading import read_all
from penstock.sim.retention_watch import RetentionWatch
from penstock.sim.scenario import FaultKind, Scenario, draw
from penstock.sim.sim_node import SimNode
from penstock.sim.trace import Line, Trace
from penstock.sim.transacting.stage import judge, set_up, works
from penstock.sim.verdict import verdict_of
from penstock.sim.wire import Wire
from penstock.world.tasks import TaskGroup

INSPECT_MS = 100
KINDS = ("producer", "reader", "admin", "committer", "app", "witness")  # as they are waited for
END_MS_MAX = 200_000  # after the faults: clients give up within their own time-outs
CHECKERS = (
    check_lost_records,
    check_contents,
    check_offsets,
    check_duplicates,
    check_order,
    check_compaction,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    seed: int
    violation: str | None
    trace: Trace
    lives: int
    acks: int
    commits: int  # of transactions
    virtual_ms: int
    steps: int
    places: Places  # for a crash

    @property
    def trace_hash(self) -> str:
        return self.trace.hash

    @property
    def lines(self) -> list[Line]:
        return self.trace.lines


def run_seed(
    seed: int,
    scenario: Scenario | None = None,
    *,
    kinds: tuple[FaultKind, ...] | None = None,
    crash_point: CrashPoint | None = None,
    log_lines: bool = False,
) -> Outcome:
    """Runs one simulation. Same seed, same code: same trace, in any process.

    Without a scenario it is the one of the seed, with the crash point of the seed if it has one;
    with these kinds of fault alone, if any are given.
    """
    loop = SimLoop()  # type: ignore[abstract]  # what it lacks, nobody may call
    if scenario is None:
        scenario = draw(seed, kinds, transactions=True)
        crash_point = draw_crash_point(seed, scenario)
        if crash_point is not None and kinds is not None and crash_point.kind not in kinds:
            crash_point = None
    simulation = Simulation(loop, scenario, crash_point)
    trace = simulation.trace
    violation = verdict_of(loop, trace, simulation.run(), log_lines=log_lines)
    return Outcome(
        seed=seed,
        violation=violation,
        trace=trace,
        lives=simulation.node.lives,
        acks=simulation.history.acks,
        commits=simulation.history.transactions.commits,
        virtual_ms=loop.now_us // 1000,
        steps=loop.steps,
        places=simulation.places,
    )


class Simulation:
    def __init__(
        self, loop: SimLoop, scenario: Scenario, crash_point: CrashPoint | None = None
    ) -> None:
        self.loop = loop
        self.scenario = scenario
        self.places = Places()
        self._crash_point = crash_point
        seed = scenario.seed
        self.trace = Trace(loop)
        self.history = History()
        self.wire = Wire(loop, stream(seed, "network"), self.trace, crashes_are_simple=True)
        self.wire.short_chance = scenario.short_chance
        file_system = FileSystem(stream(seed, "disk"))
        host = Host(
            ADDRESS.host,
            loop=loop,
            wire=self.wire,
            trace=self.trace,
            chance=stream(seed, "node"),
            file_system=file_system,
        )
        self.clock = host.clock
        self.retention = RetentionWatch(
            file_system=file_system,
            clock=self.clock,
            history=self.history,
            trace=self.trace,
            topics=scenario.topics,
        )
        file_system.about_to_rename = self.retention.about_to_rename
        self.node = SimNode(
            host,
            node_config(scenario.broker_settings),
            trace=self.trace,
            watch=HistoryWatch(self.history, lasting=scenario.lasting),
        )
        self.lab = Laboratory(
            scenario=scenario,
            clock=self.clock,
            wire=self.wire,
            trace=self.trace,
            history=self.history,
        )
        self.clients: list[Client] = []
        self._chance = stream(seed, "faults")
        self._faults = Faults(
            node=self.node,
            wire=self.wire,
            clock=self.clock,
            trace=self.trace,
            history=self.history,
            chance=self._chance,
            crash_client=self._crash_client,
        )

    async def run(self) -> None:
        async with TaskGroup() as group:
            group.start(self.node.keep_alive(), name="keep the node alive")
            group.start(self._inspect(), name="inspect")
            await self._set_up()
            self.places = Places(calls=self.node.calls, steps=self.loop.steps)
            self._arm()
            self._start_clients(group)
            await self._faults.carry_out(self.scenario.faults)
            await self._wait_for_clients()
            await self._judge("after the faults")
            self.node.stop()
            await asyncio.sleep(0.5)
            await self._judge("after a clean stop")
            group.cancel()

    async def _set_up(self) -> None:
        await self.node.up.wait()
        async with self.lab.cluster("setup", KillSwitch()) as cluster:
            told = await Admin(cluster).create_topics(
                NewTopic(name=topic.name, partitions=topic.partitions, settings=topic.settings)
                for topic in self.scenario.topics
            )
            first_refusal(told.values())
            if self.scenario.committers or self.scenario.transactions is not None:
                await self._set_up_offsets(cluster)
            if self.scenario.transactions is not None:
                await set_up(self.lab, cluster, self.scenario.transactions)
        for topic in self.scenario.topics:
            self.history.topics[topic.name] = True
            self.history.settings[topic.name] = dict(topic.settings)

    async def _set_up_offsets(self, cluster: Cluster) -> None:
        """The first question for a coordinator makes the topic."""
        await Coordinators(cluster).of("setup")
        resource = Resource(ResourceKind.TOPIC, OFFSETS_TOPIC)
        changes = [
            Change(name=name, operation=Operation.SET, value=value)
            for name, value in self.scenario.offsets_settings.items()
        ]
        first_refusal((await alter_configs(cluster, {resource: changes})).values())

    def _arm(self) -> None:
        point = self._crash_point
        if point is None:
            return
        self.trace.note("fault", f"{point} to come")
        if point.unit is Unit.CALL:
            self.node.crash_in_a_call(point.crash, calls=point.number)
        else:
            self.loop.alarm = partial(self.node.crash, point.crash)
            self.loop.alarm_step = self.loop.steps + point.number + 1

    def _start_clients(self, group: TaskGroup) -> None:
        scenario = self.scenario
        kinds: list[tuple[str, Work]] = [
            *((f"producer-{n}", produce) for n in range(scenario.producers)),
            *((f"reader-{n}", read_along) for n in range(scenario.readers)),
            *((("admin", administer),) if scenario.has_admin else ()),
            *((f"committer-{n}", commit_along) for n in range(scenario.committers)),
        ]
        if scenario.transactions is not None:
            kinds += works(scenario.transactions, self._log_ends)
        for kind, work in kinds:
            client = Client(kind, work, lab=self.lab, loop=self.loop)
            self.clients.append(client)
            group.start(client.run(), name=kind)

    async def _wait_for_clients(self) -> None:
        """Until producers have sent all; then the others are told that it is enough."""
        await asyncio.sleep(max(0, self.scenario.duration_ms - self.loop.now_us // 1000) / 1000)
        self.trace.note("fault", "no more of them")
        self.loop.alarm_step = None
        self.places = Places(
            calls=self.node.calls - self.places.calls, steps=self.loop.steps - self.places.steps
        )
        self._faults.heal()
        await asyncio.sleep(0.01)  # a crash that struck at this very moment has been noticed then
        await self._require_service()
        for kind in KINDS:
            self.lab.ending = kind != "producer"
            await self._wait_for(partial(self._all_done, kind), END_MS_MAX)

    async def _require_service(self) -> None:
        """Every partition is led again; where a disk was in the way, after a restart."""
        await self._until_up()
        if self._unserved() and self.node.host.file_system.has_failed:
            self.node.stop()
            await asyncio.sleep(0.1)
            await self._until_up()
        if missing := self._unserved():
            raise Violation(
                "readable", f"nothing is in the way, and these are not served: {missing}"
            )

    async def _until_up(self) -> None:
        try:
            async with asyncio.timeout(60):
                await self.node.up.wait()
        except TimeoutError:
            raise Violation("restart", "the node is not up after 60 s") from None

    def _unserved(self) -> list[str]:
        """Those that have no excuse: where a synced bit has flipped, a log may refuse to open."""
        assert self.node.broker is not None
        plan = self.scenario.transactions
        partitions = [
            TopicPartition(topic.name, index)
            for topic in self.scenario.topics
            for index in range(topic.partitions)
        ]
        if plan is not None:
            partitions += plan.places
            partitions += [TopicPartition(TRANSACTION_TOPIC, index) for index in range(2)]
            partitions += [TopicPartition(OFFSETS_TOPIC, index) for index in range(2)]
        return [
            str(partition)
            for partition in partitions
            if partition not in self.node.broker.logs
            and self.history.of(partition).damaged_from == NEVER
        ]

    def _all_done(self, kind: str) -> bool:
        return all(client.done for client in self.clients if client.kind.startswith(kind))

    async def _wait_for(self, condition: Callable[[], bool], wait_ms: int) -> None:
        deadline_ms = self.clock.monotonic_ms() + wait_ms
        while not condition():
            if self.clock.monotonic_ms() > deadline_ms:
                waiting = [client.kind for client in self.clients if not client.done]
                raise Violation("answers", f"{waiting} have not ended after {wait_ms} ms")
            await asyncio.sleep(0.1)

    async def _judge(self, when: str) -> None:
        await self._until_up()
        self.trace.note("judge", when)
        async with self.lab.cluster("judge", KillSwitch()) as cluster:
            try:
                await answered("judge", "metadata", check_metadata(self.history, cluster))
                commits = check_commits(self.history, Coordinators(cluster))
                await answered("judge", "commits", commits)
                partitions = await self._partitions()
                logs = await answered(
                    "judge",
                    "reading",
                    read_all(
                        cluster,
                        partitions,
                        compacted=frozenset(
                            topic.name for topic in self.scenario.topics if topic.is_compacted
                        ),
                        partition_bytes_max=self._chance.choice((100, 1_000, 1 << 20)),
                    ),
                )
                if self.scenario.transactions is not None:
                    judged = judge(self.lab, cluster, self.scenario.transactions, self.node.logs)
                    await answered("judge", "transactions", judged)
            except ClientError as error:
                raise Violation("readable", f"{when}: {error}") from error
        for check in CHECKERS:
            check(self.history, logs)
        self._inspect_retention()

    async def _partitions(self) -> list[TopicPartition]:
        """Those whose topics are there for certain."""
        assert self.node.broker is not None
        return [
            partition
            for partition in sorted(self.node.broker.logs)
            if self.history.topics.get(partition.topic) is True
            and partition.topic not in self.history.uncertain
        ]

    async def _inspect(self) -> None:
        """Looks at the invariants every now and then."""
        while True:
            await asyncio.sleep(INSPECT_MS / 1000)
            self.node.check()
            self._inspect_retention()
            check_answers(self.wire)
            if self.loop.failures:
                raise self.loop.failures[0]

    def _inspect_retention(self) -> None:
        for partition, log in sorted(self.node.logs.items()):
            self.retention.look_at(partition, log.start_offset)
        if self.retention.found is not None:
            raise self.retention.found

    def _log_ends(self) -> dict[TopicPartition, int]:
        return {partition: log.end_offset for partition, log in self.node.logs.items()}

    def _crash_client(self, which: float) -> None:
        self.clients[int(which * len(self.clients))].crash()

"""A day of the shop under kills: events go in, the node and the driver are killed in turn, and what
comes out is compared with what went in. Start at `ShopDay.run`.

Partitions are added in the middle of the day, as an operator has to do it who wants to keep the
order of keys: a key that moves to another partition may be read there before what is left of it in
the old one. So nothing is sent until all that was sent has come out, and then the topics grow.
"""

import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# What can be tested without a shop lies with the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import psutil

from penstock.cli.connect import RULES
from penstock.cli.demo_outputs import Outputs
from penstock.cli.demo_processes import DemoCluster, DemoDriver
from penstock.cli.demo_shop import INPUTS, leader_of_most
from penstock.cli.pipeline_generate import send_events
from penstock.client.admin.admin import Admin, first_refusal
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.spark.pipelines.commerce.proof import OUTPUTS, Finding, Proof
from penstock.spark.pipelines.generated import Event
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.awaited_rows import may_be_all, rows_least

LOOK_SECONDS = 1.0
LINE_EVERY_SECONDS = 10.0
# So long nothing came out: it may be all. After the proof it is waited once more, for duplicates.
QUIET_SECONDS = 8.0
NODE_DOWN_SECONDS_MAX = 2.0
NODE_START_SECONDS_MAX = 120.0
ENDED_BY_ITSELF_MAX = 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    count: int  # of events
    rate: float | None  # events a second; None: all of them are there before Spark starts
    kill_every_seconds: float | None
    adds_partitions: bool
    silent_seconds_max: float  # nothing came out for so long: it will not come
    seconds_max: float  # for everything
    seed: int


@dataclass(slots=True, kw_only=True)
class Course:
    """What has happened so far."""

    sent: int = 0
    node_kills: int = 0
    driver_kills: int = 0
    ended_by_itself: list[str] = field(default_factory=list)  # last lines of drivers
    partitions: dict[str, int] = field(default_factory=dict)  # of topics that have grown
    peak_bytes: int = 0  # of the driver, its Java and its workers
    began_s: float = field(default_factory=time.monotonic)  # when the driver was started first
    came_s: float = 0.0  # when the last row came out

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    findings: list[Finding]
    course: Course
    in_time: bool

    @property
    def proven(self) -> bool:
        return self.in_time and all(finding.proven for finding in self.findings)


class ShopDay:
    def __init__(
        self,
        plan: Plan,
        events: Iterator[Event],
        *,
        cluster: DemoCluster,
        driver: DemoDriver,
        table: Callable[[], Mapping[str, int]],
        say: Say,
    ) -> None:
        self.course = Course()
        self._plan = plan
        self._events = events
        self._nodes = cluster
        self._driver = driver
        self._table = table
        self._say = say
        self._proof = Proof()
        self._sent: Counter[str] = Counter()  # events by topic
        self._outputs = Outputs(OUTPUTS)
        self._dice = random.Random(f"kills {plan.seed}")
        self._came = asyncio.Event()  # rows, since somebody waits for them
        self._may_kill = asyncio.Event()
        self._may_kill.set()
        self._findings: list[Finding] = []

    async def run(self) -> Outcome:
        addresses = parse_addresses(self._nodes.bootstrap)
        in_time = True
        try:
            async with (
                asyncio.timeout(self._plan.seconds_max),
                Cluster(TcpNetwork(), RealClock(), addresses, rules=RULES) as cluster,
            ):
                await self._run(cluster)
        except TimeoutError:
            in_time = False
            self._say(f"not done within {self._plan.seconds_max:.0f} s")
            self._findings = self._proof.findings(self._outputs.found, self._table())
        return Outcome(findings=self._findings, course=self.course, in_time=in_time)

    async def _run(self, cluster: Cluster) -> None:
        async with asyncio.TaskGroup() as beside:
            tasks = [beside.create_task(self._watch())]
            if self._plan.rate is None:
                await self._send(cluster, self._plan.count)
                self._say(f"{self.course.sent:,} events are in the topics: Spark starts")
            self.course.began_s = time.monotonic()
            self._driver.start()
            reading = self._outputs.read_on(cluster, self._note_rows)
            tasks.append(beside.create_task(reading))
            killing = None
            if self._plan.kill_every_seconds is not None:
                killing = beside.create_task(self._kill_in_turn(cluster))
                tasks.append(killing)
            if self._plan.rate is not None:
                await self._send_the_day(cluster)
                if killing is not None:
                    killing.cancel()  # what is left is to come out undisturbed
            self._findings = await self._all_out()
            for task in tasks:
                task.cancel()

    async def _send_the_day(self, cluster: Cluster) -> None:
        before = self._plan.count // 2 if self._plan.adds_partitions else 0
        await self._send(cluster, before)
        if self._plan.adds_partitions:
            self._may_kill.clear()  # what is on its way is to come out first
            await self._all_out()
            await self._add_partitions(cluster)
            self._may_kill.set()
        await self._send(cluster, self._plan.count - before)
        self._say("all events are sent; what is left comes out without kills")

    async def _send(self, cluster: Cluster, count: int) -> None:
        def noted() -> Iterator[Event]:
            for event in self._events:
                self._proof.take(event)
                self._sent[event.topic] += 1
                yield event

        def sent(more: int) -> None:
            self.course.sent += more

        if count:
            await send_events(cluster, noted(), count=count, rate=self._plan.rate, progress=sent)

    async def _add_partitions(self, cluster: Cluster) -> None:
        view = await cluster.refresh(INPUTS)
        grown = {topic: 2 * len(view.topics[topic].partitions) for topic in INPUTS}
        first_refusal((await Admin(cluster).create_partitions(grown)).values())
        await cluster.refresh(INPUTS)
        self.course.partitions = grown
        told = ", ".join(f"{topic} {count}" for topic, count in grown.items())
        self._say(f"partitions added, after {self.course.sent:,} events: {told}")

    # Kills.

    async def _kill_in_turn(self, cluster: Cluster) -> None:
        """A kill of the idle proves little: each waits until rows come out."""
        assert self._plan.kill_every_seconds is not None
        for number in itertools.count():
            await asyncio.sleep(self._plan.kill_every_seconds)
            await self._may_kill.wait()
            self._came.clear()
            await self._came.wait()
            # What is begun here comes to its end: a task that is cancelled leaves nothing down.
            await asyncio.shield(self._kill_driver() if number % 2 else self._kill_node(cluster))

    async def _kill_node(self, cluster: Cluster) -> None:
        number, led = await leader_of_most(cluster)
        node = self._nodes.nodes[number]
        await asyncio.to_thread(node.kill)
        self.course.node_kills += 1
        self._say(f"SIGKILL to node {number}, which leads {led} partitions of the inputs")
        await asyncio.sleep(self._dice.uniform(0, NODE_DOWN_SECONDS_MAX))
        async with asyncio.timeout(NODE_START_SECONDS_MAX):
            await asyncio.to_thread(node.start)

    async def _kill_driver(self) -> None:
        await asyncio.to_thread(self._driver.kill)
        self.course.driver_kills += 1
        self._say("SIGKILL to the Spark driver with its Java; another one continues")
        self._driver.start()

    # What comes out.

    async def _all_out(self) -> list[Finding]:
        """When every output is as it has to be and nothing more comes, or nothing came for long.

        The proof looks at all records: it waits until their number allows that it holds.
        """
        proven_rows: int | None = None
        rows_wanted = 0
        since_s = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            since_s = max(since_s, self.course.came_s)
            quiet_s = time.monotonic() - since_s
            if quiet_s < QUIET_SECONDS:
                continue
            rows, is_over = self._outputs.count, quiet_s > self._plan.silent_seconds_max
            counts = {topic: len(found) for topic, found in self._outputs.found.items()}
            if not is_over and (rows < rows_wanted or not may_be_all(self._sent, counts)):
                continue
            table = await asyncio.to_thread(self._table)
            findings = await asyncio.to_thread(self._proof.findings, self._outputs.found, table)
            proven = all(finding.proven for finding in findings)
            if (proven and proven_rows == rows) or is_over:
                return findings
            proven_rows = rows if proven else None
            rows_wanted = rows_least(rows, findings)
            await asyncio.sleep(QUIET_SECONDS)

    def _note_rows(self, more: int) -> None:
        if more:
            self.course.came_s = time.monotonic()
            self._came.set()

    async def _watch(self) -> None:
        """Tells how far it is, notes the memory, and starts a driver that ended by itself."""
        course = self.course
        next_s = 0.0
        while True:
            if self._driver.ended:
                course.ended_by_itself.append(self._driver.last_line())
                self._say(f"the driver ended by itself: {course.ended_by_itself[-1]}")
                if len(course.ended_by_itself) > ENDED_BY_ITSELF_MAX:
                    raise RuntimeError("drivers end by themselves, again and again")
                self._driver.start()
            if self._driver.pid is not None:
                used = await asyncio.to_thread(memory_of, self._driver.pid)
                course.peak_bytes = max(course.peak_bytes, used)
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + LINE_EVERY_SECONDS
                self._say(
                    f"{course.seconds:6.0f} s  events in {course.sent:,} of"
                    f" {self._plan.count:,}  rows out {self._outputs.count:,}  kills:"
                    f" node {course.node_kills}, driver {course.driver_kills}"
                )
            await asyncio.sleep(LOOK_SECONDS)


def memory_of(pid: int) -> int:
    """What a process and all below it use; what they share counts once (PSS)."""
    used = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for one in processes:
        try:
            used += one.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return used

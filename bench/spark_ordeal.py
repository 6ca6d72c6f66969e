"""A query of Spark under strikes: its processes and its node are killed, and rows count once.

Start at `endure`. When a strike comes is the seed's choice; what it hits is not. All rows stand in
the source from the beginning, so progress is the number of batches that Spark has noted as written.
"""

import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Protocol

# The node, the cluster and the driver programs are the tests' own.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rig.numbered_rows import Judgement, judge_topic, make_topics, write_numbers
from rig.spark_cluster import SparkCluster
from rig.spark_driving import DriverError, SparkDriver
from rig.spark_query import Carrying
from rig.spark_strikes import NAME, Strike, Where

PARTITIONS = 4
LOOK_SECONDS = 0.1
# A strike comes within about a batch after the one that it waited for.
JITTER_SECONDS = 2.5
NODE_DOWN_SECONDS_MAX = 1.5
WITHOUT_PROGRESS_SECONDS_MAX = 180.0
# Apache Kafka takes longer to start than others that are waited for.
PATIENT = {"kafka.default.api.timeout.ms": "60000"}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
}


class Node(Protocol):
    """A broker that can be killed and started again."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Victim(Enum):
    DRIVER = "driver killed"
    SLEEPING_DRIVER = "driver asleep while another took its place"
    EXECUTOR = "executor killed"
    NODE = "node killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    batches: int
    rows_a_batch: int = 2_000
    on_cluster: bool = False
    on_kafka: bool = False  # Apache Kafka, without two-phase commit
    on_three_nodes: bool = False  # of Penstock; each strike hits one that leads something
    strikes: tuple[Victim, ...] = ()
    speculates: bool = False  # a task of each batch hangs, and another attempt overtakes it
    carrying: dict[str, str] = field(default_factory=dict)  # of `Carrying`, where it is different
    settings: dict[str, str] = field(default_factory=dict)
    failing_batch: int | None = None

    @property
    def rows(self) -> int:
        return self.batches * self.rows_a_batch


@dataclass(slots=True, kw_only=True)
class Progress:
    scenario: Scenario
    batches: int = 0
    rows_added: int = 0  # since the first ones came to their end before the strikes did
    lives: int = 0  # of driver programs
    struck: list[Victim] = field(default_factory=list)
    overtaken: int = 0  # tasks that hung, and whose batch was written all the same
    errors: list[str] = field(default_factory=list)  # what queries ended with
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def line(self) -> str:
        return (
            f"{self.scenario.name:42} {self.seconds:6.1f} s  batches {self.batches} of "
            f"{self.scenario.batches}  strikes {len(self.struck)} of "
            f"{len(self.scenario.strikes)}  drivers {self.lives}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    scenario: Scenario
    judgement: Judgement
    progress: Progress
    seconds: float

    @property
    def rows(self) -> int:
        """That went in."""
        return self.scenario.rows + self.progress.rows_added


class Ordeal:
    def __init__(
        self,
        scenario: Scenario,
        *,
        node: Node,
        cluster: SparkCluster | None,
        folder: Path,
        dice: random.Random,
        told: Callable[[Progress], None],
    ) -> None:
        self.progress = Progress(scenario=scenario)
        self._scenario = scenario
        self._node = node
        self._cluster = cluster
        self._folder = folder
        self._dice = dice
        self._told = told
        self._left = list(scenario.strikes)
        self._dice.shuffle(self._left)
        self._sleeping: tuple[SparkDriver, str] | None = None
        folder.mkdir()
        topic = folder.name
        self._carrying = Carrying(
            bootstrap=node.bootstrap,
            source=f"{topic}-in",
            sink=f"{topic}-out",
            checkpoint=str(folder / "checkpoint"),
            rows_per_batch=scenario.rows_a_batch,
            failing_batch=scenario.failing_batch,
            writer_options=PATIENT if scenario.on_kafka else {},
            **scenario.carrying,  # type: ignore[arg-type] # they are the strings among the fields
        )
        make_topics(
            node.bootstrap, self._carrying.source, self._carrying.sink, partitions=PARTITIONS
        )

    def run(self) -> Outcome:
        if self._scenario.speculates:
            self._run_overtaken()
        else:
            write_numbers(self._node.bootstrap, self._carrying.source, range(self._scenario.rows))
            while not self._live():
                pass
        if self._sleeping is not None:
            self._wake()
        rows = self._scenario.rows + self.progress.rows_added
        judgement = judge_topic(self._node.bootstrap, self._carrying.sink, count=rows)
        return Outcome(
            scenario=self._scenario,
            judgement=judgement,
            progress=self.progress,
            seconds=self.progress.seconds,
        )

    def _live(self) -> bool:
        """One life of a driver program; whether it came to the end of the rows."""
        driver = self._driver()
        keeps = False
        try:
            query = driver.start(self._carrying)
            while True:
                victim = self._await_strike(driver, query)
                if victim is None:
                    try:
                        driver.ended(query)
                        if not self._left:
                            return True
                        self._add_rows()
                    except DriverError as error:
                        self._note(error)
                    query = driver.start(self._carrying)
                elif self._strike(victim, driver, query):
                    keeps = victim is Victim.SLEEPING_DRIVER
                    return False
        finally:
            if not keeps:
                driver.kill()

    def _add_rows(self) -> None:
        """Enough for the strikes that are left."""
        begin = self._scenario.rows + self.progress.rows_added
        count = self._scenario.rows_a_batch * (len(self._left) + 1)
        numbers = range(begin, begin + count)
        write_numbers(self._node.bootstrap, self._carrying.source, numbers)
        self.progress.rows_added += count

    def _await_strike(self, driver: SparkDriver, query: str) -> Victim | None:
        """What is to be struck now; None when the query has ended by itself."""
        done = self.progress.batches = batches_of(self._carrying)
        share = (self._scenario.batches - done) // (len(self._left) + 1)
        target = done + share
        deadline = time.monotonic() + WITHOUT_PROGRESS_SECONDS_MAX
        while driver.ask("look", query=query):
            batches = batches_of(self._carrying)
            if batches > self.progress.batches:
                self.progress.batches = batches
                deadline = time.monotonic() + WITHOUT_PROGRESS_SECONDS_MAX
                if self._sleeping is not None:
                    self._wake()
            self._told(self.progress)
            if self._left and batches >= target and self._sleeping is None:
                time.sleep(self._dice.uniform(0, JITTER_SECONDS))
                return self._left.pop()
            assert time.monotonic() < deadline, f"nothing is written any more: {driver.log}"
            time.sleep(LOOK_SECONDS)
        self.progress.batches = batches_of(self._carrying)
        self._told(self.progress)
        return None

    def _strike(self, victim: Victim, driver: SparkDriver, query: str) -> bool:
        """Whether the life of the driver is over."""
        self.progress.struck.append(victim)
        match victim:
            case Victim.NODE:
                self._node.kill()
                time.sleep(self._dice.uniform(0, NODE_DOWN_SECONDS_MAX))
                self._node.start()
                return False
            case Victim.EXECUTOR:
                assert self._cluster is not None
                executors = self._cluster.executors()
                if executors:
                    self._dice.choice(executors).kill()
                return False
            case Victim.SLEEPING_DRIVER:
                driver.stall()
                self._sleeping = (driver, query)
                return True
            case Victim.DRIVER:
                return True

    def _wake(self) -> None:
        """The driver that slept goes on where it was; its query comes to an end."""
        assert self._sleeping is not None
        (driver, query), self._sleeping = self._sleeping, None
        driver.resume()
        try:
            driver.ended(query)
        except DriverError as error:
            self._note(error)
        finally:
            driver.kill()

    def _run_overtaken(self) -> None:
        """Each batch has a task that hangs with a part of its rows written."""
        driver = self._driver()
        rows = self._scenario.rows_a_batch
        try:
            for batch in range(self._scenario.batches):
                numbers = range(batch * rows, (batch + 1) * rows)
                write_numbers(self._node.bootstrap, self._carrying.source, numbers)
                strike = Strike(where=Where.TASK_SLOW, batch=batch, folder=self._folder)
                carried = driver.carry(
                    replace(
                        self._carrying,
                        writer=NAME,
                        rows_per_batch=None,
                        writer_options=strike.options,
                    )
                )
                assert carried == [batch]
                self.progress.batches = batch + 1
                self.progress.overtaken += strike.was_reached
                self._told(self.progress)
        finally:
            driver.kill()

    def _driver(self) -> SparkDriver:
        self.progress.lives += 1
        settings = dict(self._scenario.settings)
        if self._scenario.on_cluster:
            assert self._cluster is not None
            settings |= self._cluster.settings
        if self._scenario.speculates:
            settings |= SPECULATION
        return SparkDriver(log=self._folder / f"driver{self.progress.lives}.log", settings=settings)

    def _note(self, error: DriverError) -> None:
        self.progress.errors.append(gist(str(error)))


def batches_of(carrying: Carrying) -> int:
    """How many batches Spark has noted as written; it keeps the notes of the last hundred."""
    commits = Path(carrying.checkpoint) / "commits"
    if not commits.is_dir():
        return 0
    return max((int(one.name) + 1 for one in commits.iterdir() if one.name.isdecimal()), default=0)


def gist(text: str) -> str:
    """Of what a query ended with: Python's last word where there is one, or else Spark's first."""
    lines = text.splitlines() or [""]
    errors = [line for line in lines if re.match(r"(\w+\.)+\w+: ", line)]
    return (errors or lines[:1])[-1][:200]

"""The clients of the ordeal of exactly-once: each carries records from one topic to another.

    streams     the word count of Kafka Streams, exactly_once_v2; a record out is a count of a word
    confluent   two processes of confluent-kafka that consume, transform and produce in transactions
    java        the same with the Java client
    spark       a streaming query of Spark with our source and our sink

Start at `CARRIERS`. A client that ends by itself, or a query that fails, is started again, as a
supervisor does it, and counted: the contract of each says when (a producer that was fenced, a task
that failed too often).
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from spark_ordeal import Ordeal, Scenario, Victim

from rig.apache_kafka.jars import fetched_jars, fetched_streams_jars
from rig.clients.confluent import ConfluentClient
from rig.failover.cluster import ReplicatedCluster
from rig.failover.killed_node import KilledNode
from rig.pipeline.kinds import java_worker, python_worker
from rig.pipeline.ordeal import Plan, endure
from rig.pipeline.stream import SINK, SOURCE
from rig.word_count import COUNTS, LINES, PARTITIONS, Counts, Lines, WordCount

RECORDS_A_STRIKE = 400  # of the pipelines
WORKERS = 2
COUNTS_A_STRIKE = 300  # of Kafka Streams
LINE_PAUSE_SECONDS = 0.02
HASTY_SHARE = 0.3  # of the strikes, how many come before the last one has been overcome
HASTE_SECONDS_MAX = 0.8
BATCHES_A_STRIKE = 3  # of Spark, for a start
ROWS_A_BATCH = 500
WITHOUT_PROGRESS_SECONDS_MAX = 180.0
SPARK_FOLDER = "carried"  # also the name of its topics


@dataclass(slots=True, kw_only=True)
class Carried:
    """What came of it. All but the first two, `restarts` and `errors` is zero or empty."""

    records_in: int
    records_out: int
    duplicates: int
    missing: int
    out_of_order: int
    restarts: int  # of the client, since its contract asks for it
    errors: Sequence[str]  # that reached the application
    faults: list[str] = field(default_factory=list)  # others


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a client is given: a cluster that runs, and so many strikes at it to live through."""

    cluster: ReplicatedCluster
    node: KilledNode
    strikes: int
    seed: int
    folder: Path
    told: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    topics: tuple[str, ...]  # whose leaders are struck
    carry: Callable[[Task], Carried]


def carry_by_confluent(task: Task) -> Carried:
    return carry_by_workers(task, python_worker("confluent-kafka"))


def carry_by_java(task: Task) -> Carried:
    return carry_by_workers(task, java_worker(jars=fetched_jars(), folder=task.folder))


def carry_by_workers(task: Task, command: list[str]) -> Carried:
    plan = Plan(
        records=RECORDS_A_STRIKE * (task.strikes + 1),
        worker_kills=0,
        node_kills=task.strikes,
        seed=task.seed,
        commands=[command] * WORKERS,
    )
    outcome = endure(
        task.node, plan, folder=task.folder, told=lambda progress: task.told(progress.line)
    )
    judgement = outcome.judgement
    counted = {"duplicates", "missing", "out of order"}
    return Carried(
        records_in=plan.records,
        records_out=judgement.read,
        duplicates=judgement.duplicates,
        missing=judgement.missing,
        out_of_order=judgement.out_of_order,
        restarts=outcome.progress.ended,
        errors=outcome.errors,
        faults=[f"{n} {what}" for what, n in outcome.faults.items() if what not in counted],
    )


def carry_by_streams(task: Task) -> Carried:
    with closing(ConfluentClient(task.cluster.bootstrap)) as admin:
        for topic in (LINES, COUNTS):
            admin.create_topic(topic, partitions=PARTITIONS)
    words = WordCount(
        jars=fetched_streams_jars(), folder=task.folder, bootstrap=task.cluster.bootstrap
    )
    with closing(Counts(task.cluster.bootstrap)) as counts:
        try:
            return StreamsRun(task, counts, words).run()
        finally:
            words.end()


class StreamsRun:
    def __init__(self, task: Task, counts: Counts, words: WordCount) -> None:
        self._task, self._counts, self._words = task, counts, words
        self._restarts = 0
        self._struck = 0

    def run(self) -> Carried:
        dice = random.Random(self._task.seed)
        faults: list[str] = []
        with closing(
            Lines(self._task.cluster.bootstrap, pause_seconds=LINE_PAUSE_SECONDS)
        ) as lines:
            self._words.start()
            self._until_more(COUNTS_A_STRIKE)
            for number in range(self._task.strikes):
                if number and dice.random() < HASTY_SHARE:
                    time.sleep(dice.uniform(0, HASTE_SECONDS_MAX))
                else:
                    self._until_more(dice.randrange(1, COUNTS_A_STRIKE))
                self._task.node.kill()
                self._task.node.start()
                self._struck += 1
            self._until_more(COUNTS_A_STRIKE)
        said = lines.said
        try:
            self._until(lambda: self._counts.look() == said, "every word is counted")
        except AssertionError as error:
            faults.append(str(error))
        return Carried(
            records_in=said.total(),
            records_out=self._counts.read,
            duplicates=self._counts.repeated,
            missing=(said - self._counts.seen).total(),
            out_of_order=self._counts.skipped,
            restarts=self._restarts,
            errors=(),
            faults=faults,
        )

    def _until_more(self, count: int) -> None:
        wanted = self._counts.seen.total() + count
        self._until(lambda: self._counts.look().total() >= wanted, f"{count} more counts")

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        """As long as words are counted from time to time."""
        read, deadline = -1, 0.0
        while not is_so():
            if self._counts.read > read:
                read = self._counts.read
                deadline = time.monotonic() + WITHOUT_PROGRESS_SECONDS_MAX
            assert time.monotonic() < deadline, f"no word was counted for long: {what}"
            self._restarts += self._words.revive()
            self._task.told(f"counts {read:,}, struck {self._struck} of {self._task.strikes}")


def carry_by_spark(task: Task) -> Carried:
    scenario = Scenario(
        name="three nodes",
        batches=BATCHES_A_STRIKE * (task.strikes + 1),
        rows_a_batch=ROWS_A_BATCH,
        on_three_nodes=True,
        strikes=(Victim.NODE,) * task.strikes,
    )
    ordeal = Ordeal(
        scenario,
        node=task.node,
        cluster=None,
        folder=task.folder / SPARK_FOLDER,
        dice=random.Random(task.seed),
        told=lambda progress: task.told(progress.line),
    )
    outcome = ordeal.run()
    judgement, progress = outcome.judgement, outcome.progress
    counted = {"duplicates", "missing", "out of order"}
    return Carried(
        records_in=outcome.rows,
        records_out=judgement.rows,
        duplicates=judgement.duplicates,
        missing=judgement.missing,
        out_of_order=judgement.out_of_order,
        restarts=len(progress.errors) + progress.lives - 1,
        errors=progress.errors,
        faults=[f"{what}: {n}" for what, n in judgement.faults.items() if what not in counted],
    )


CARRIERS = {
    "streams": Carrier(topics=(LINES, COUNTS), carry=carry_by_streams),
    "confluent": Carrier(topics=(SOURCE, SINK), carry=carry_by_confluent),
    "java": Carrier(topics=(SOURCE, SINK), carry=carry_by_java),
    "spark": Carrier(topics=(f"{SPARK_FOLDER}-in", f"{SPARK_FOLDER}-out"), carry=carry_by_spark),
}

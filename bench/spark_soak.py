"""The exactly-once sink of Spark, at length, on this machine and on a real standalone cluster.

    python bench/spark_soak.py                     every scenario
    python bench/spark_soak.py --only driver       those with this in their names
    python bench/spark_soak.py --scale 3           three times as many batches and strikes
    python bench/spark_soak.py --only stopped      50 queries, each stopped in mid-batch

What comes out is read by confluent-kafka, committed records only. The first scenario is Spark's own
Kafka sink, which does repeat rows: so the check is known to bite.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from spark_ordeal import Node, Ordeal, Outcome, Progress, Scenario, Victim
from spark_stopped import NAME as STOPPED
from spark_stopped import stop_queries
from spark_submitted import NAME as SUBMITTED
from spark_submitted import count_words

from rig.apache_kafka.broker import ApacheKafka
from rig.apache_kafka.jars import PeerMissing, fetched_jars
from rig.broker import NO_RETENTION_ROUND
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.killed_node import KilledNode
from rig.serve import ServedNode
from rig.spark_cluster import SparkCluster
from rig.spark_connector import connector_jars
from rig.spark_query import OFFICIAL

LINE_EVERY_SECONDS = 10
STOPS = 50
NODE_SETTINGS = {
    **NO_RETENTION_ROUND,
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}
COLUMNS = ("rows in", "rows out", "duplicates", "missing", "out of order", "open", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="scenarios with this in their names")
    parser.add_argument("--scale", type=int, default=1, help="so many times the batches")
    parser.add_argument("--seed", type=int, default=1, help="the order and times of the strikes")
    parser.add_argument("--folder", type=Path, help="a new one, which is kept")
    chosen = parser.parse_args()
    wanted = [one for one in scenarios(chosen.scale) if chosen.only in one.name]
    try:
        fetched_jars()
    except PeerMissing as missing:
        print(f"without Apache Kafka: {missing}")
        wanted = [one for one in wanted if not one.on_kafka]
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as folder:
        outcomes = soak(
            wanted,
            chosen.folder or Path(folder),
            seed=chosen.seed,
            submits=chosen.only in SUBMITTED,
            stops=STOPS * chosen.scale if chosen.only in STOPPED else 0,
        )
    show(outcomes, seed=chosen.seed)
    faulty = [one for one in outcomes if is_ours(one.scenario) and one.judgement.faults]
    print(f"verdict: {'NOT ' if faulty else ''}exactly once")
    sys.exit(1 if faulty else 0)


def scenarios(scale: int) -> list[Scenario]:
    drivers, nodes, executors = 6 * scale, 6 * scale, 4 * scale
    return [
        *official(),
        Scenario(name="task retried", batches=4, failing_batch=1),
        Scenario(
            name="driver killed at random",
            batches=3 * drivers,
            strikes=(Victim.DRIVER,) * drivers,
        ),
        Scenario(
            name="driver asleep, another took over",
            batches=9 * scale,
            strikes=(Victim.SLEEPING_DRIVER,) * 2 * scale,
        ),
        Scenario(name="node killed at random", batches=5 * nodes, strikes=(Victim.NODE,) * nodes),
        Scenario(
            name="three nodes: leaders killed at random",
            on_three_nodes=True,
            batches=5 * nodes,
            strikes=(Victim.NODE,) * nodes,
        ),
        Scenario(name="Apache Kafka: task retried", on_kafka=True, batches=4, failing_batch=1),
        Scenario(
            name="Apache Kafka: driver killed",
            on_kafka=True,
            batches=3 * drivers,
            strikes=(Victim.DRIVER,) * drivers,
        ),
        Scenario(
            name="Apache Kafka: driver asleep",
            on_kafka=True,
            batches=9 * scale,
            strikes=(Victim.SLEEPING_DRIVER,) * 2 * scale,
        ),
        Scenario(
            name="Apache Kafka: node killed",
            on_kafka=True,
            batches=5 * nodes,
            strikes=(Victim.NODE,) * nodes,
        ),
        Scenario(
            name="cluster: executor killed",
            on_cluster=True,
            batches=5 * executors,
            strikes=(Victim.EXECUTOR,) * executors,
        ),
        Scenario(name="cluster: speculation", on_cluster=True, batches=5 * scale, speculates=True),
        Scenario(
            name="cluster: all of it at random",
            on_cluster=True,
            batches=24 * scale,
            strikes=(
                *(Victim.EXECUTOR,) * 3 * scale,
                *(Victim.NODE,) * 2 * scale,
                *(Victim.DRIVER,) * scale,
                *(Victim.SLEEPING_DRIVER,) * scale,
            ),
        ),
    ]


def official() -> list[Scenario]:
    """Spark's own source and sink, where their jars can be had."""
    try:
        jars = connector_jars()
    except PeerMissing as missing:
        print(f"without Spark's own sink: {missing}")
        return []
    return [
        Scenario(
            name="task retried, Spark's own sink",
            batches=4,
            failing_batch=1,
            carrying={"reader": OFFICIAL, "writer": OFFICIAL},
            settings={"spark.jars": ",".join(map(str, jars))},
        )
    ]


def is_ours(scenario: Scenario) -> bool:
    return scenario.carrying.get("writer") != OFFICIAL


def soak(
    wanted: list[Scenario], folder: Path, *, seed: int, submits: bool, stops: int
) -> list[Outcome]:
    folder.mkdir(parents=True, exist_ok=True)
    node = ServedNode(data=folder / "node", settings=NODE_SETTINGS)
    node.start()
    cluster = None
    if submits or any(one.on_cluster for one in wanted):
        cluster = SparkCluster(folder=folder / "cluster")
        cluster.start()
    peer = None
    if any(one.on_kafka for one in wanted):
        peer = apache_kafka(folder / "kafka")
        peer.start()
    replicated = None
    if any(one.on_three_nodes for one in wanted):
        replicated = ReplicatedCluster(
            PenstockSoftware(), folder / "nodes", settings={**BRISK_SESSIONS, **NODE_SETTINGS}
        )
        replicated.start()
    lines = Lines()
    outcomes = []
    try:
        for number, scenario in enumerate(wanted):
            broker: Node | None = peer if scenario.on_kafka else node
            if scenario.on_three_nodes:
                assert replicated is not None
                broker = KilledNode(replicated, topics=(), seed=seed)
            assert broker is not None
            ordeal = Ordeal(
                scenario,
                node=broker,
                cluster=cluster,
                folder=folder / f"soak-{number}",
                dice=random.Random(f"{seed} {scenario.name}"),
                told=lines.tell,
            )
            outcomes.append(ordeal.run())
            lines.end(outcomes[-1])
        if stops:
            outcomes.append(
                stop_queries(
                    node.bootstrap,
                    folder / "stopped",
                    count=stops,
                    dice=random.Random(f"{seed} {STOPPED}"),
                    told=lines.tell,
                )
            )
            lines.end(outcomes[-1])
        if submits:
            assert cluster is not None
            outcomes.append(count_words(node, cluster, folder))
            lines.end(outcomes[-1])
    finally:
        if cluster is not None:
            cluster.stop()
        if peer is not None and peer.running:
            peer.stop()
        if replicated is not None:
            replicated.kill()
        if node.running:
            node.stop()
    return outcomes


def apache_kafka(folder: Path) -> ApacheKafka:
    folder.mkdir()
    settings = {"auto.create.topics.enable": "false"}
    return ApacheKafka(jars=fetched_jars(), folder=folder, settings=settings)


class Lines:
    """A line that changes on a terminal, and now and then one elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._next = 0.0

    def tell(self, progress: Progress) -> None:
        if self._live:
            print(f"\r{progress.line}", end="", flush=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_SECONDS
            print(progress.line, flush=True)

    def end(self, outcome: Outcome) -> None:
        start = "\r" if self._live else ""
        faults = outcome.judgement.faults or "none"
        print(f"{start}{outcome.progress.line}  faults: {faults}", flush=True)


def show(outcomes: list[Outcome], *, seed: int) -> None:
    print(f"\nseed {seed}")
    print(f"{'scenario':34}" + "".join(f"{name:>14}" for name in COLUMNS) + "  what happened")
    for one in outcomes:
        judged = one.judgement
        numbers = (
            one.rows,
            judged.rows,
            judged.duplicates,
            judged.missing,
            judged.out_of_order,
            len(judged.open_transactions),
            round(one.seconds),
        )
        print(f"{one.scenario.name:34}" + "".join(f"{n:>14,}" for n in numbers) + f"  {told(one)}")
    for one in outcomes:
        for error in sorted(set(one.progress.errors)):
            print(f"{one.scenario.name}: a query ended with: {error}")


def told(outcome: Outcome) -> str:
    progress = outcome.progress
    counts = [
        f"{progress.struck.count(victim)} x {victim.value}"
        for victim in Victim
        if victim in progress.struck
    ]
    if progress.overtaken:
        counts.append(f"{progress.overtaken} x task overtaken")
    if outcome.scenario.failing_batch is not None:
        counts.append("1 x task failed")
    return ", ".join((*counts, f"{progress.lives} x driver started"))


if __name__ == "__main__":
    main()

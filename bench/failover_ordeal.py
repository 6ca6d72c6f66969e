"""Nodes of a replicated cluster are killed under load: nothing that was acked is lost or doubled.

    python bench/failover_ordeal.py [--kills 100] [--pauses 10] [--wipes 5] [--broker penstock]

Three processes, partitions with three replicas, min.insync.replicas=2; idempotent producers of
confluent-kafka, kafka-python and Java with acks of all. In random order: SIGKILL of a leader, of
the active controller, of another node, of two at once, of all, of a leader that is ahead of its
followers and again in the middle of its truncation, of a node and again in the middle of its
recovery and once or twice more at any moment of its start; SIGSTOP for longer than the session; a
node whose log.dirs were wiped while it was down. Three of ten faults strike before the cluster is
whole again after the last one, but for those that need all replicas in sync.

A leader gets 40 segments ahead of followers that stand still, so that it takes a while to cut them
off. The kill comes when the first of them is gone, and counts if records that were to be cut off
are still there; else all of it is done again, five times at most. A run without any such kill has
failed.

Nor does a recovery take long, so 40 segments are written to a partition, and acked by all replicas,
before a node is killed that is to recover. Its start scans them, since they lie above its recovery
point. The second kill comes when it has opened one of the first half (Apache Kafka: has logged that
it recovers it), and counts if the node has not logged then that all logs are recovered; else it is
started and killed again, five times at most. A run without any such kill has failed, too.

At the end every record that was sent must be acked: clients try for half an hour, longer than any
fault lasts. Every acked record must be there once, at the offset that was acked, the records of
each producer in order, and the three replicas equal, byte for byte, below the high watermark.
`--acks 1` gives up what the rest relies on: then losses must be found, and records that clients
gave up are only counted. The result names the clients that took part: without Apache Kafka's jars
the producer of Java does not. Ctrl-C ends it after the fault that is under way.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from brokers import TESTS, kafka_jars
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# The cluster, and what is done to it, are the tests' own.
sys.path.append(str(TESTS))

from rig.failover.acked_records import NoProgress
from rig.failover.cluster import (
    BRISK_SESSIONS,
    KafkaSoftware,
    PenstockSoftware,
    ReplicatedCluster,
    Software,
)
from rig.failover.ordeal import FailoverOrdeal, OrdealReport, schedule
from rig.failover.producers import java_producer_command

PENSTOCK, KAFKA = "penstock", "kafka"


def main() -> None:
    options = parsed()
    console = Console()
    jars = kafka_jars()
    if isinstance(jars, str) and options.broker == KAFKA:
        raise SystemExit(f"no Apache Kafka: {jars}")
    if isinstance(jars, str):
        console.print(f"[yellow]without the Java producer: {jars}")
    with ExitStack() as opened:
        folder = options.logs or Path(
            opened.enter_context(tempfile.TemporaryDirectory(prefix="penstock-ordeal-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        java = None
        if not isinstance(jars, str):
            java = java_producer_command(jars=jars, folder=folder)
        software: Software = PenstockSoftware()
        if options.broker == KAFKA:
            assert isinstance(jars, Path)
            software = KafkaSoftware(jars)
        settings = {**BRISK_SESSIONS, **dict(pair.split("=", 1) for pair in options.set)}
        cluster = ReplicatedCluster(software, folder, settings=settings)
        opened.enter_context(cluster)
        cluster.start()
        console.print(f"{software.name}, seed {options.seed}, data and logs in {folder}")
        ordeal = FailoverOrdeal(
            cluster, seed=options.seed, rate=options.rate, java=java, acks=options.acks
        )
        try:
            strike_all(ordeal, options, console)
        except (NoProgress, AssertionError) as error:
            ordeal.report.faults.append(str(error))
            ordeal.report.faults += start_again(cluster)
        show(ordeal.finish(), options, console)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--pauses", type=int, default=10)
    parser.add_argument("--wipes", type=int, default=5)
    parser.add_argument("--broker", choices=(PENSTOCK, KAFKA), default=PENSTOCK)
    parser.add_argument("--rate", type=float, default=200, help="records a second of each producer")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of nodes")
    parser.add_argument("--logs", type=Path, help="a new folder for data and logs, which are kept")
    return parser.parse_args()


def strike_all(ordeal: FailoverOrdeal, options: argparse.Namespace, console: Console) -> None:
    faults = schedule(options.seed, kills=options.kills, pauses=options.pauses, wipes=options.wipes)
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("faults", total=len(faults))
        for number, fault in enumerate(faults, 1):
            if interrupted.is_set():
                return
            progress.update(task, description=fault.value)
            started = time.monotonic()
            ordeal.strike(fault)
            progress.console.print(
                f"{number:3} {fault.name.lower():10} {time.monotonic() - started:5.1f} s, "
                f"{ordeal.report.acked:,} acked, load {os.getloadavg()[0]:.1f}"
            )
            progress.advance(task)


def start_again(cluster: ReplicatedCluster) -> list[str]:
    """What can still be judged is judged with all nodes up; those that do not start."""
    faults: list[str] = []
    for number, node in cluster.nodes.items():
        try:
            if node.running:
                os.kill(node.pid, signal.SIGCONT)
            else:
                cluster.start(number)
        except AssertionError as error:
            faults.append(str(error))
    return faults


def show(report: OrdealReport, options: argparse.Namespace, console: Console) -> None:
    for fault, count in report.struck.most_common():
        console.print(f"{count:4} times {fault.value}")
    console.print(f"{options.broker}, seed {options.seed}: {report.line}")
    if report.errors:
        console.print(f"clients said: {report.errors}")
    for broken in report.faults[:50]:
        console.print(f"  [red]{broken}")
    if report.faults:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

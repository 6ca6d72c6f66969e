"""How soon a cluster takes admin requests again when its active controller is killed.

    python bench/controller_kills.py [--kills 50] [--kafka-every 1] [--broker penstock]

Three nodes of Penstock and three of Apache Kafka, each a process, with the same times of quorum and
sessions, which are Kafka's defaults. Two AdminClients of confluent-kafka create, configure and
delete topics all the time. In each round the active controller is killed with SIGKILL; it is
started again, and the next round begins when it is unfenced and has caught up. Both clusters run
at the same time and have their rounds in turn; the other one has no clients meanwhile. Ctrl-C ends
it after the round that is under way. The times are from the kill

    direct   to the reply of a CreateTopics that was sent after the kill to a node that lives, by a
             connection that was open before; it is sent again when the outcome is open
    client   to the first topic that an AdminClient created, of those begun after the kill
    back     from the start of the killed node until it is unfenced and has caught up

At the end each of the three nodes must show every topic and setting that was acknowledged, and
nothing else. `repeated` counts creations that were asked for once and refused since the topic
exists: a broker had sent them to the next controller after the last one had done them.
"""

import argparse
import math
import os
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from brokers import KAFKA_JVM, TESTS, kafka_jars
from rich.console import Console
from rich.table import Table

# The clusters, and what is done to them, are the tests' own.
sys.path.append(str(TESTS))

from rig.apache_kafka.cluster import KafkaCluster
from rig.cluster_questions import ClusterOfProcesses
from rig.controller_kills import ControllerKills, KillsReport
from rig.served_cluster import ServedCluster

TIMES = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
}
PENSTOCK, KAFKA = "penstock", "kafka"


def milliseconds(seconds: Sequence[float]) -> list[str]:
    """Median, 90th percentile, worst and least."""
    ordered = sorted(seconds)
    ninetieth = ordered[math.ceil(len(ordered) * 0.9) - 1]
    shown = (statistics.median(ordered), ninetieth, ordered[-1], ordered[0])
    return [f"{one * 1000:,.0f}" for one in shown]


def line_of(number: int, name: str, report: KillsReport) -> str:
    direct, client = report.direct_seconds[-1] * 1000, report.client_seconds[-1] * 1000
    return (
        f"{number:3} {name:8} direct {direct:6,.0f} ms, client {client:6,.0f} ms, "
        f"back {report.back_seconds[-1]:5.1f} s, acked {report.acked:,}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def table_of(reports: dict[str, KillsReport]) -> Table:
    table = Table("cluster", "ms from the kill to", "median", "90 %", "worst", "least")
    for name, report in reports.items():
        if not report.kills:
            continue
        table.add_row(name, "direct", *milliseconds(report.direct_seconds))
        table.add_row("", "client", *milliseconds(report.client_seconds))
        table.add_row("", "(start to) back", *milliseconds(report.back_seconds))
    return table


def summary_of(name: str, report: KillsReport, cpu_seconds: float) -> str:
    return (
        f"{name}: {report.kills} kills, {report.acked:,} operations acked, {report.open} open, "
        f"{len(report.repeated)} repeated, {len(report.faults)} faults, {cpu_seconds:.0f} s of CPU"
    )


def cpu_seconds(cluster: ClusterOfProcesses) -> Callable[[], float]:
    """Adds up what each process of the cluster had taken when it was last looked at."""
    ticks = os.sysconf("SC_CLK_TCK")
    seen: dict[int, float] = {}

    def look() -> float:
        for node in cluster.nodes.values():
            if node.running:
                fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
                seen[node.pid] = (int(fields[11]) + int(fields[12])) / ticks
        return sum(seen.values())

    return look


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--kafka-every",
        type=int,
        default=1,
        metavar="N",
        help="Apache Kafka has a round after every N of Penstock's: its nodes come back slowly",
    )
    parser.add_argument("--broker", choices=(PENSTOCK, KAFKA))
    parser.add_argument("--logs", type=Path, help="a new folder for data and logs, which are kept")
    options = parser.parse_args()
    console = Console(width=100)
    with ExitStack() as opened:
        folder = options.logs or Path(
            opened.enter_context(tempfile.TemporaryDirectory(prefix="penstock-kills-"))
        )
        clusters: dict[str, ServedCluster | KafkaCluster] = {}
        if options.broker != KAFKA:
            times = {name.replace(".", "_"): value for name, value in TIMES.items()}
            laid_out = ServedCluster(folder.resolve() / PENSTOCK, **times)
            clusters[PENSTOCK] = opened.enter_context(laid_out)
        if options.broker != PENSTOCK:
            jars = kafka_jars()
            if isinstance(jars, str):
                console.print(f"without Apache Kafka: {jars}")
            else:
                kafka = KafkaCluster(
                    jars=jars, folder=folder / KAFKA, settings=TIMES, options=KAFKA_JVM
                )
                clusters[KAFKA] = opened.enter_context(kafka)
        for cluster in clusters.values():
            cluster.start()
        looks = {name: cpu_seconds(cluster) for name, cluster in clusters.items()}
        runs = {name: ControllerKills(cluster) for name, cluster in clusters.items()}
        interrupted = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: interrupted.set())
        try:
            for number in range(1, options.kills + 1):
                for name, run in runs.items():
                    if interrupted.is_set() or (name == KAFKA and number % options.kafka_every):
                        continue
                    looks[name]()
                    run.kill_once()
                    console.print(line_of(number, name, run.report))
        finally:
            reports = {name: run.finish() for name, run in runs.items()}
        console.print(table_of(reports))
        for name, report in reports.items():
            console.print(summary_of(name, report, looks[name]()))
            for fault in (*report.repeated[:5], *report.faults[:20]):
                console.print(f"  {name}: {fault}")
        if any(report.faults for report in reports.values()):
            raise SystemExit(1)


if __name__ == "__main__":
    main()

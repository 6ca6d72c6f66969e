"""How soon a partition can be written again when its leader is killed, or stops cleanly.

    python bench/failover.py [--rounds 20] [--controllers 5] [--kafka-every 1] [--broker penstock]

Three nodes of Penstock and three of Apache Kafka, each a process, with the same times of quorum and
sessions, which are Kafka's defaults; partitions with three replicas, min.insync.replicas=2, acks of
all. Both clusters run at the same time and have their rounds in turn; the other one has no clients
meanwhile. In a round a leader is killed with SIGKILL, or told to stop with SIGTERM; it is started
again, and the next round begins when it is in sync. In so many rounds of each kind it is the active
controller. Writers write one record at a time:

    direct        has connections to all nodes, and goes where a refusal says (KIP-951)
    penstock      Penstock's own client; knows KIP-951
    java          the Java client with its defaults; knows KIP-951
    franz-go      the same, with its defaults; built when Go is there
    confluent     librdkafka with its defaults, idempotent; knows KIP-951, and waits for its
                  retry.backoff.ms all the same
    kafka-python  with its defaults, idempotent; learns of leaders by metadata alone

Times of kills are from the kill to the next ack, those of stops the longest that one record took.
`failed` counts records that a client gave up: none should be. Ctrl-C ends it after the round that
is under way.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from brokers import KAFKA_JVM, TESTS, kafka_jars
from controller_kills import KAFKA, PENSTOCK, TIMES, milliseconds
from rich.console import Console
from rich.table import Table

# The clusters, and what is done to them, are the tests' own.
sys.path.append(str(TESTS))

from rig.failover.cluster import KafkaSoftware, PenstockSoftware, ReplicatedCluster, Software
from rig.failover.failover_times import FailoverReport, FailoverTimes
from rig.failover.program_writers import franz_go_writer, java_writer


def main() -> None:
    options = parsed()
    console = Console(width=100)
    with ExitStack() as opened:
        folder = options.logs or Path(
            opened.enter_context(tempfile.TemporaryDirectory(prefix="penstock-failover-"))
        )
        runs: dict[str, FailoverTimes] = {}
        programs = programs_of(Path(opened.enter_context(tempfile.TemporaryDirectory())), console)
        for software in softwares(options, console):
            cluster = ReplicatedCluster(software, folder.resolve() / software.name, settings=TIMES)
            opened.enter_context(cluster)
            cluster.start()
            runs[software.name] = FailoverTimes(cluster, programs)
        interrupted = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: interrupted.set())
        for number in range(options.rounds):
            for name, run in runs.items():
                if interrupted.is_set() or (name == KAFKA and number % options.kafka_every):
                    continue
                began = time.monotonic()
                is_controller = number < options.controllers
                run.kill_once(controller=is_controller)
                run.stop_once(controller=is_controller)
                taken = time.monotonic() - began
                console.print(line_of(number + 1, options.rounds, name, run.report, taken))
        reports = {name: run.report for name, run in runs.items()}
        console.print(table_of(reports))
        for name, report in reports.items():
            console.print(
                f"{name}: {report.kills} kills, {report.controllers_killed} of the active"
                f" controller; {report.stops} stops, {report.controllers_stopped} of it;"
                f" {len(report.failures)} records failed"
            )
            for failure in report.failures[:20]:
                console.print(f"  {failure}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20, help="each a kill and a stop")
    parser.add_argument("--controllers", type=int, default=5, help="of them, of the controller")
    parser.add_argument(
        "--kafka-every",
        type=int,
        default=1,
        metavar="N",
        help="Apache Kafka has every N-th round only: its nodes come back slowly",
    )
    parser.add_argument("--broker", choices=(PENSTOCK, KAFKA))
    parser.add_argument("--logs", type=Path, help="a new folder for data and logs, which are kept")
    return parser.parse_args()


def softwares(options: argparse.Namespace, console: Console) -> list[Software]:
    found: list[Software] = []
    if options.broker != KAFKA:
        found.append(PenstockSoftware())
    if options.broker != PENSTOCK:
        jars = kafka_jars()
        if isinstance(jars, str):
            console.print(f"[yellow]without Apache Kafka beside it: {jars}")
        else:
            found.append(KafkaSoftware(jars, options=KAFKA_JVM))
    if not found:
        raise SystemExit("no broker to measure")
    return found


def programs_of(folder: Path, console: Console) -> dict[str, list[str]]:
    """The clients of other languages that can be had here."""
    programs: dict[str, list[str]] = {}
    jars = kafka_jars()
    if isinstance(jars, str):
        console.print(f"[yellow]without the Java client: {jars}")
    else:
        programs["java"] = java_writer(jars=jars, folder=folder)
    franz_go = franz_go_writer()
    if isinstance(franz_go, str):
        console.print(f"[yellow]without franz-go: {franz_go}")
    else:
        programs["franz-go"] = franz_go
    return programs


def line_of(number: int, rounds: int, name: str, report: FailoverReport, taken: float) -> str:
    kills = ", ".join(f"{one} {last(of)}" for one, of in report.kill_seconds.items())
    stops = ", ".join(f"{one} {last(of)}" for one, of in report.stop_seconds.items())
    return (
        f"{number}/{rounds} {name}, ms: killed: {kills}; stopped: {stops};"
        f" round {taken:.0f} s, load {os.getloadavg()[0]:.1f}"
    )


def last(seconds: list[float]) -> str:
    return f"{seconds[-1] * 1000:,.0f}"


def table_of(reports: dict[str, FailoverReport]) -> Table:
    table = Table("cluster", "ms", "median", "90 %", "worst", "least")
    for name, report in reports.items():
        for what, found in (
            ("from the kill to the next ack", report.kill_seconds),
            ("longest wait in a clean stop", report.stop_seconds),
        ):
            for client, seconds in found.items():
                table.add_row(name, f"{what}, {client}", *milliseconds(seconds))
        if report.stopped_after:
            table.add_row(name, "from SIGTERM to the end", *milliseconds(report.stopped_after))
    return table


if __name__ == "__main__":
    main()

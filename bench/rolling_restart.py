"""All nodes are restarted in turn, again and again, under load: no client notices.

    python bench/rolling_restart.py [--rolls 10] [--broker kafka]

Three nodes as processes, RF 3, min.insync.replicas=2. Idempotent producers, transactional workers
and members of groups of both protocols, of confluent-kafka and Java (and a producer of
kafka-python), work all the time. A roll stops each node with SIGTERM, lets the clients go on
without it, starts it again and waits until all is in sync. No error may reach an application, no
record may be lost or doubled, no member may lose its partitions.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from brokers import TESTS, kafka_jars
from rich.console import Console

# The cluster and its clients are the tests' own.
sys.path.append(str(TESTS))

from rig.failover.cluster import KafkaSoftware, PenstockSoftware, ReplicatedCluster, Software
from rig.failover.rolling import SETTINGS, RolledClients, RollReport, roll

PENSTOCK, KAFKA = "penstock", "kafka"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rolls", type=int, default=10)
    parser.add_argument("--rate", type=float, default=100, help="records a second of each producer")
    parser.add_argument("--broker", choices=(PENSTOCK, KAFKA), default=PENSTOCK)
    parser.add_argument("--logs", type=Path, help="a new folder for data and logs, which are kept")
    options = parser.parse_args()
    console = Console(highlight=False)
    jars = kafka_jars()
    if isinstance(jars, str):
        console.print(f"without the clients of Java: {jars}")
    software: Software = PenstockSoftware()
    if options.broker == KAFKA:
        if isinstance(jars, str):
            raise SystemExit(f"no Apache Kafka: {jars}")
        software = KafkaSoftware(jars)
    with ExitStack() as opened:
        temporary = tempfile.TemporaryDirectory(prefix="penstock-rolling-")
        folder = options.logs or Path(opened.enter_context(temporary))
        folder.mkdir(parents=True, exist_ok=True)
        cluster = opened.enter_context(ReplicatedCluster(software, folder, settings=SETTINGS))
        cluster.start()
        clients = RolledClients(
            cluster, folder, jars=None if isinstance(jars, str) else jars, rate=options.rate
        )
        opened.enter_context(closing(clients))
        report = run(cluster, clients, options.rolls, console)
    show(report, console)
    sys.exit(1 if report.errors or report.faults else 0)


def run(
    cluster: ReplicatedCluster, clients: RolledClients, rolls: int, console: Console
) -> RollReport:
    clients.begin()
    started = time.monotonic()

    def tell(number: int, line: str) -> None:
        console.print(f"{time.monotonic() - started:6.1f} s  roll {number} of {rolls}: {line}")

    for number in range(1, rolls + 1):
        roll(cluster, clients, told=partial(tell, number))
    return clients.finish()


def show(report: RollReport, console: Console) -> None:
    console.print(report.line)
    for error in report.errors[:20]:
        console.print(f"an application was told: {error}", markup=False)
    for fault in report.faults[:20]:
        console.print(f"FAULT: {fault}", markup=False, style="red")


if __name__ == "__main__":
    main()

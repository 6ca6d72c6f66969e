"""What replication takes as a cluster grows: idle partitions, leaders to move, a log to copy.

    python bench/replication.py [--counts 300,3000] [--gigabytes 2] [--broker penstock]

Three nodes of Penstock, then three of Apache Kafka, with the settings of `compare.py --nodes 3`.

- *partitions*: for each count a fresh cluster, topics of 100 partitions with three replicas. Idle
  CPU and memory of all nodes; then a node that leads a third of them is killed: how long until the
  first of its partitions takes a record with acks of all again, and until the last does.
- *catch-up*: so many GB are written to 12 partitions, a follower is killed, its log.dirs wiped, and
  started again: how fast it copies all, from the moment it is ready until it is in sync, and how
  long records take meanwhile that a client writes one at a time.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from asking import PRODUCE_VERSION, Asking, await_true
from brokers import kafka_jars, leaders_on, topic_on
from cases import KIB, Case, Kind
from clusters import Cluster, kafka_cluster, penstock_cluster
from compare import TABLE_WIDTH, await_clean_pages, machine
from loading import Topic, apply_load, built_load, write_templates
from rich.console import Console
from rich.table import Table

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from rig.cluster_questions import active_controller, is_whole
from rig.failover.questions import partition_states
from rig.failover.writers import DirectWriter

PARTITIONS_A_TOPIC = 100
METADATA_VERSION = 12
SETTLE_SECONDS, IDLE_SECONDS = 15, 20
COPIED_PARTITIONS = 12
MIB = 1024 * 1024
Place = tuple[bytes, int]  # topic id, partition


def main() -> None:
    options = parsed()
    console = Console()
    if not console.is_terminal:
        console.width = TABLE_WIDTH
    makers = makers_of(options, console)
    found: dict[str, dict[str, str]] = {name: {} for name in makers}
    for name, make in makers.items():
        for count in [int(one) for one in options.counts.split(",") if one]:
            with running(make) as cluster:
                console.print(f"{name}: {count} partitions")
                found[name] |= grown(cluster, count)
        if options.gigabytes:
            with running(make) as cluster, tempfile.TemporaryDirectory() as folder:
                console.print(f"{name}: catch-up of {options.gigabytes} GB")
                found[name] |= caught_up(cluster, options.gigabytes, Path(folder))
    table = Table("", *found, title=f"three nodes, three replicas; {machine()}")
    for what in dict.fromkeys(name for figures in found.values() for name in figures):
        table.add_row(what, *(figures.get(what, "") for figures in found.values()))
    console.print(table)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", default="300,3000", help="of partitions, with commas between")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="to be copied; 0: none")
    parser.add_argument("--broker", choices=("penstock", "kafka"))
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="penstock's"
    )
    return parser.parse_args()


def makers_of(
    options: argparse.Namespace, console: Console
) -> dict[str, Callable[[Path], Cluster]]:
    makers: dict[str, Callable[[Path], Cluster]] = {}
    settings = dict(pair.split("=", 1) for pair in options.set)
    if options.broker != "kafka":
        makers["penstock"] = lambda folder: penstock_cluster(folder, settings=settings)
    if options.broker != "penstock":
        jars = kafka_jars()
        if isinstance(jars, str):
            console.print(f"[yellow]without Apache Kafka beside it: {jars}")
        else:
            makers["kafka"] = lambda folder: kafka_cluster(folder, jars=jars)
    return makers


@contextmanager
def running(make: Callable[[Path], Cluster]) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="penstock-replication-") as folder:
        cluster = make(Path(folder) / "cluster")
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
            await_clean_pages()


# ---- many partitions


def grown(cluster: Cluster, count: int) -> dict[str, str]:
    started = time.perf_counter()
    names = [f"grown-{number}" for number in range(count // PARTITIONS_A_TOPIC)]
    ids = [topic_on(cluster, name, PARTITIONS_A_TOPIC) for name in names]
    created = time.perf_counter() - started
    time.sleep(SETTLE_SECONDS)
    cpu = idle_cpu(cluster)
    resident = max(psutil.Process(pid).memory_info().rss for pid in cluster.pids) / MIB
    first, last, moved = moved_leaders(cluster, dict(zip(names, ids, strict=True)))
    return {
        f"{count:,} partitions: created and in sync": f"{created:.1f} s",
        f"{count:,} partitions: idle CPU of all nodes": f"{cpu:.1%} of a core",
        f"{count:,} partitions: RSS of the largest node": f"{resident:.0f} MiB",
        f"{count:,} partitions: {moved} leaders killed, first ack": f"{first * 1000:,.0f} ms",
        f"{count:,} partitions: {moved} leaders killed, all acked": f"{last * 1000:,.0f} ms",
    }


def idle_cpu(cluster: Cluster) -> float:
    """Cores, of all nodes together."""

    def spent() -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in cluster.pids)

    before, started = spent(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (spent() - before) / (time.monotonic() - started)


def moved_leaders(cluster: Cluster, topics: dict[str, bytes]) -> tuple[float, float, int]:
    """Seconds from the kill of a node to the first and to the last ack of what it led."""
    nodes = cluster.nodes
    active = active_controller(nodes.addresses.values())
    killed = next(number for number in nodes.nodes if number != active)
    survivor = nodes.addresses[active]
    led = {
        (topic_id, index)
        for name, topic_id in topics.items()
        for index, state in partition_states(survivor, name).items()
        if state.leader == killed
    }
    asking = {
        number: Asking(address_of(address))
        for number, address in nodes.addresses.items()
        if number != killed
    }
    killed_at = time.monotonic()
    os.kill(nodes.nodes[killed].pid, signal.SIGKILL)
    left, first = set(led), 0.0
    while left:
        acked = acked_of(left, asking, active)
        if acked and left == led:
            first = time.monotonic() - killed_at
        left -= acked
    return first, time.monotonic() - killed_at, len(led)


def acked_of(left: set[Place], asking: dict[int, Asking], active: int) -> set[Place]:
    """Writes a record to each of these partitions that has a leader among the living."""
    reply = asking[active].ask(MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION)
    acked: set[Place] = set()
    for number, one in asking.items():
        led = {
            topic.topic_id: [
                index
                for index in (
                    part.partition_index for part in topic.partitions if part.leader_id == number
                )
                if (topic.topic_id, index) in left
            ]
            for topic in reply.topics
        }
        acked |= written(one, led)
    return acked


def written(asking: Asking, places: dict[bytes, list[int]]) -> set[Place]:
    batch = build_batch([Record(key=None, value=b"v", timestamp_ms=int(time.time() * 1000))])
    topics = [
        TopicProduceData(
            topic_id=topic_id,
            partition_data=[PartitionProduceData(index=index, records=batch) for index in indexes],
        )
        for topic_id, indexes in places.items()
        if indexes
    ]
    if not topics:
        return set()
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
    reply = asking.ask(request, ProduceResponse, PRODUCE_VERSION)
    return {
        (topic.topic_id, one.index)
        for topic in reply.responses
        for one in topic.partition_responses
        if one.error_code == 0
    }


# ---- an empty follower


def caught_up(cluster: Cluster, gigabytes: float, folder: Path) -> dict[str, str]:
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    case = Case(
        name="catch-up",
        kind=Kind.PRODUCE,
        batch_bytes=64 * KIB,
        partitions=COPIED_PARTITIONS,
        acks=-1,
        connections=6,
        value_bytes=int(gigabytes * 1e9),
    )
    topic_id = topic_on(cluster, "copied", COPIED_PARTITIONS)
    topic = Topic(name="copied", topic_id=topic_id, leaders=leaders_on(cluster, "copied"))
    run = apply_load(program, case, write_templates(case, folder), cluster, topic, scale=1.0)
    await_clean_pages()
    nodes = cluster.nodes
    active = active_controller(nodes.addresses.values())
    number = next(one for one in nodes.nodes if one != active)
    nodes.nodes[number].end(signal.SIGKILL)
    nodes.wipe(number)
    writer = DirectWriter(
        {one: address for one, address in nodes.addresses.items() if one != number},
        "copied",
        next(
            index
            for index, state in partition_states(nodes.addresses[active], "copied").items()
            if state.leader == active
        ),
        leader=active,
    )
    with writer.running():
        writer.first(lambda _: len(writer.written) >= 100)
        alone = [one.ended - one.begun for one in writer.written]
        nodes.start(number)
        started = time.monotonic()
        with Asking(cluster.address) as asking:
            await_true("a copy in sync", lambda: asking.leaders("copied") is not None, 600)
        seconds = time.monotonic() - started
        meanwhile = [one.ended - one.begun for one in writer.written if one.begun > started]
    await_true("a whole cluster", lambda: is_whole(nodes))
    return {
        f"{gigabytes:g} GB copied by an empty follower": f"{run.bytes / 1e6 / seconds:,.0f} MB/s",
        "a record meanwhile, p50 / p99 / worst": quantiles(meanwhile),
        "a record before, p50 / p99 / worst": quantiles(alone),
        "failed meanwhile": str(len(writer.failures)),
    }


def quantiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "none"
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return " / ".join(f"{one * 1000:.1f}" for one in (cuts[49], cuts[98], max(seconds))) + " ms"


def address_of(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # so that a file can be followed
    main()

"""What three nodes with many partitions take: to create them, to tell all nodes, to start again.

    python bench/cluster_partitions.py [--partitions 3000] [--replicas 1] [--broker kafka]

Topics of 100 partitions, created one after the other through one node. The figures are

    create      until the last topic is acknowledged
    told        from the acknowledgement of one more topic until each node shows it, the slowest
    stop        of all nodes, cleanly, at the same time
    start       of all nodes, until each one is ready
    led         from there until each partition has a leader in the metadata of every node
    back        of a node that was killed: from its start until it is unfenced
    idle        CPU of all nodes together, in per cent of a core, after that
"""

import argparse
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
from asking import CREATE_VERSION, Asking, Refused
from brokers import TESTS, kafka_jars
from rich.console import Console
from rich.table import Table

from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

sys.path.append(str(TESTS))

from rig.apache_kafka.cluster import KafkaCluster
from rig.cluster_questions import ClusterOfProcesses, is_whole, until
from rig.served_cluster import ServedCluster

PARTITIONS_A_TOPIC = 100
METADATA_VERSION = 12
TOLD_TIMES = 21
IDLE_SECONDS = 10
PENSTOCK, KAFKA = "penstock", "kafka"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--broker", choices=(PENSTOCK, KAFKA), default=PENSTOCK)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-partitions-") as folder,
        cluster_of(given.broker, Path(folder)) as cluster,
    ):
        cluster.start()
        figures = measure(cluster, given.partitions, given.replicas)
    title = f"{given.broker}: {given.partitions} partitions of {given.replicas} on three nodes"
    table = Table("", "figure", title=title)
    for name, figure in figures.items():
        table.add_row(name, figure)
    Console().print(table)


def cluster_of(broker: str, folder: Path) -> ServedCluster | KafkaCluster:
    if broker == KAFKA:
        return KafkaCluster(folder, kafka_jars())
    return ServedCluster(folder)


def measure(cluster: ClusterOfProcesses, partitions: int, replicas: int) -> Mapping[str, str]:
    figures: dict[str, str] = {}
    first, *_ = cluster.addresses.values()
    with Asking(address(first)) as asking:
        started = time.perf_counter()
        for number in range(partitions // PARTITIONS_A_TOPIC):
            create(asking, f"topic-{number}", PARTITIONS_A_TOPIC, replicas)
        figures["create"] = seconds(started)
        told = [told_ms(cluster, asking, f"told-{time_}", replicas) for time_ in range(TOLD_TIMES)]
        figures["told"] = f"median {statistics.median(told):.1f} ms, worst {max(told):.1f} ms"
    started = time.perf_counter()
    for node in cluster.nodes.values():
        psutil.Process(node.pid).terminate()
    for node in cluster.nodes.values():
        node.until_ended()
    figures["stop"] = seconds(started)
    started = time.perf_counter()
    cluster.start()
    figures["start"] = seconds(started)
    started = time.perf_counter()
    until("every partition has a leader on every node", lambda: all_led(cluster, partitions))
    figures["led"] = seconds(started)
    victim = max(cluster.nodes)
    cluster.nodes[victim].end(signal.SIGKILL)
    started = time.perf_counter()
    cluster.start(victim)
    until("the cluster is whole", lambda: is_whole(cluster))
    figures["back"] = seconds(started)
    used = cpu_seconds(cluster)
    time.sleep(IDLE_SECONDS)
    figures["idle"] = f"{(cpu_seconds(cluster) - used) / IDLE_SECONDS:.1%} of a core"
    resident = [psutil.Process(node.pid).memory_info().rss for node in cluster.nodes.values()]
    figures["RSS"] = ", ".join(f"{size / 2**20:.0f} MiB" for size in resident)
    return figures


def create(asking: Asking, name: str, partitions: int, replicas: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    created = asking.ask(request, CreateTopicsResponse, CREATE_VERSION).topics[0]
    if created.error_code:
        raise Refused(f"{name}: error {created.error_code}, {created.error_message}")


def told_ms(cluster: ClusterOfProcesses, asking: Asking, name: str, replicas: int) -> float:
    others = [Asking(address(one)) for one in cluster.addresses.values()]
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    create(asking, name, 1, replicas)
    acknowledged = time.perf_counter()
    for other in others:
        while other.ask(wanted, MetadataResponse, METADATA_VERSION).topics[0].error_code:
            pass
        other.__exit__()
    return (time.perf_counter() - acknowledged) * 1000


def all_led(cluster: ClusterOfProcesses, partitions: int) -> bool:
    for one in cluster.addresses.values():
        with Asking(address(one)) as asking:
            reply = asking.ask(MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION)
        led = [part.leader_id >= 0 for topic in reply.topics for part in topic.partitions]
        if len(led) < partitions or not all(led):
            return False
    return True


def cpu_seconds(cluster: ClusterOfProcesses) -> float:
    return sum(sum(psutil.Process(node.pid).cpu_times()[:2]) for node in cluster.nodes.values())


def seconds(since: float) -> str:
    return f"{time.perf_counter() - since:.2f} s"


def address(one: str) -> tuple[str, int]:
    host, _, port = one.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()

"""What a node with many partitions takes: time, memory, descriptors, and how they grow.

    python bench/partitions.py [--counts 400,4000]

For each count a node of its own, with topics of 100 partitions. Beside a step stands the longest
that a question without work waited meanwhile: what other clients feel.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from asking import FETCH_VERSION, PRODUCE_VERSION, Asking, Refused
from rich.console import Console
from rich.table import Table

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rig.held_port import HeldPort
from rig.serve import ServedNode

PARTITIONS_A_TOPIC = 100
METADATA_VERSION = 12
PING_SECONDS = 0.02
IDLE_SECONDS = 10
SCRAPES = 20
MIB = 1024 * 1024


@dataclass(slots=True)
class Measured:
    """Figures of one count of partitions, by what they are of; the unit ends the name."""

    figures: dict[str, float] = field(default_factory=dict)
    stalls_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, node: ServedNode) -> Iterator[None]:
        stall = Stall(address_of(node))
        started = time.perf_counter()
        try:
            yield
        finally:
            self.figures[f"{name}, s"] = time.perf_counter() - started
            self.stalls_ms[f"{name}, s"] = stall.end()


class Stall:
    """Asks all the time, on a connection of its own; the longest wait for an answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._asking = Asking(address)
        self._over = threading.Event()
        self._longest = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> float:
        self._over.set()
        self._thread.join()
        return self._longest * 1000

    def _run(self) -> None:
        with self._asking:
            while not self._over.wait(PING_SECONDS):
                asked = time.perf_counter()
                self._asking.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
                self._longest = max(self._longest, time.perf_counter() - asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", default="400,4000", help="partitions, with commas between")
    counts = [int(count) for count in parser.parse_args().counts.split(",")]
    found: list[Measured] = []
    for count in counts:
        print(f"{count} partitions", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="penstock-partitions-") as folder:
            found.append(measure(Path(folder), count))
    Console().print(table(counts, found))


def measure(folder: Path, count: int) -> Measured:
    measured = Measured()
    metrics = HeldPort()
    node = ServedNode(data=folder / "data", settings={"penstock.metrics.address": metrics.address})
    node.start()
    try:
        measured.figures["RSS before, MiB"] = resident_mib(node)
        with Asking(address_of(node)) as asking:
            work(measured, node, asking, count)
        scrape(measured, node, f"http://{metrics.address}/metrics", count)
        look(measured, node, "after work")
        started = time.perf_counter()
        node.stop()
        measured.figures["clean stop, s"] = time.perf_counter() - started
        started = time.perf_counter()
        node.start()
        measured.figures["start after it, s"] = time.perf_counter() - started
        idle(measured, node)
        look(measured, node, "after start")
        node.kill()
        started = time.perf_counter()
        node.start()
        measured.figures["start after a kill, s"] = time.perf_counter() - started
    finally:
        if node.running:
            node.stop()
    return measured


def work(measured: Measured, node: ServedNode, asking: Asking, count: int) -> None:
    names = [f"topic-{index}" for index in range(count // PARTITIONS_A_TOPIC)]
    with measured.step("create", node):
        topics = [asking.create_topic(name, PARTITIONS_A_TOPIC) for name in names]
    for number in ("first", "second"):
        with measured.step(f"produce to all, {number} time", node):
            for topic_id in topics:
                produce(asking, topic_id)
    with measured.step("list and describe all", node):
        reply = asking.ask(MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION)
        listed = sum(len(topic.partitions) for topic in reply.topics)
        if listed != count:
            raise Refused(f"{listed} partitions are listed of {count}")
    with measured.step("fetch from all", node):
        for topic_id in topics:
            fetch(asking, topic_id)


def produce(asking: Asking, topic_id: bytes) -> None:
    batch = build_batch([Record(key=b"k", value=b"v" * 100, timestamp_ms=int(time.time() * 1000))])
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS_A_TOPIC)]
    topic = TopicProduceData(topic_id=topic_id, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    reply = asking.ask(request, ProduceResponse, PRODUCE_VERSION)
    errors = [one.error_code for topic in reply.responses for one in topic.partition_responses]
    if len(errors) != PARTITIONS_A_TOPIC or any(errors):
        raise Refused(f"not all of {PARTITIONS_A_TOPIC} partitions acked: {errors}")


def fetch(asking: Asking, topic_id: bytes) -> None:
    asked = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=MIB)
        for index in range(PARTITIONS_A_TOPIC)
    ]
    topics = [FetchTopic(topic_id=topic_id, partitions=asked)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=topics)
    reply = asking.ask(request, FetchResponse, FETCH_VERSION)
    ends = [one.high_watermark for topic in reply.responses for one in topic.partitions]
    if ends != [2] * PARTITIONS_A_TOPIC:
        raise Refused(f"two records were acked in each partition, found are {ends}")


def scrape(measured: Measured, node: ServedNode, url: str, count: int) -> None:
    """The best of some, as the first makes what later ones have; stalls are those of all."""
    process = psutil.Process(node.pid)
    stall = Stall(address_of(node))
    taken, cost = [], []
    for _ in range(SCRAPES):
        used, started = process.cpu_times(), time.perf_counter()
        with urllib.request.urlopen(url) as reply:
            text = reply.read()
        taken.append(time.perf_counter() - started)
        after = process.cpu_times()
        cost.append(after.user + after.system - used.user - used.system)
        if text.count(b"kafka_log_log_size{") != count + 1:
            raise Refused(f"not all of {count} logs are told, and that of the metadata")
        time.sleep(0.1)
    measured.figures["scrape, best, ms"] = min(taken) * 1000
    measured.stalls_ms["scrape, best, ms"] = stall.end()
    measured.figures["scrape, median, ms"] = statistics.median(taken) * 1000
    measured.figures["scrape, CPU, median, ms"] = statistics.median(cost) * 1000


def idle(measured: Measured, node: ServedNode) -> None:
    """CPU and stalls of a node that nobody asks for anything."""
    process = psutil.Process(node.pid)
    stall = Stall(address_of(node))
    process.cpu_percent()
    time.sleep(IDLE_SECONDS)
    measured.figures["idle, % of a core"] = process.cpu_percent()
    measured.stalls_ms["idle, % of a core"] = stall.end()


def look(measured: Measured, node: ServedNode, when: str) -> None:
    measured.figures[f"RSS {when}, MiB"] = resident_mib(node)
    measured.figures[f"descriptors {when}"] = psutil.Process(node.pid).num_fds()


def resident_mib(node: ServedNode) -> float:
    return float(psutil.Process(node.pid).memory_info().rss / MIB)


def address_of(node: ServedNode) -> tuple[str, int]:
    host, port = node.bootstrap.rsplit(":", 1)
    return host, int(port)


def table(counts: list[int], found: list[Measured]) -> Table:
    shown = Table(title=f"partitions on one node ({sys.version.split()[0]})")
    shown.add_column("")
    for count in counts:
        shown.add_column(f"{count:,}", justify="right")
        shown.add_column("stall, ms", justify="right")
    shown.add_column("growth", justify="right")
    for name in found[0].figures:
        row = [name]
        for measured in found:
            stall = measured.stalls_ms.get(name)
            row += [f"{measured.figures[name]:.2f}", "" if stall is None else f"{stall:.0f}"]
        first = found[0].figures[name]
        row.append(f"{found[-1].figures[name] / first:.1f} ×" if first else "")
        shown.add_row(*row)
    return shown


if __name__ == "__main__":
    main()

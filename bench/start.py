"""How long until a record is acked, how much memory an idle node holds, how long a fixture takes.

    python bench/start.py [--rounds N]

Three questions, each asked some times; the table shows the median and the range. Every node gets a
fresh directory and a free port, so the first start includes formatting. The client is a raw socket
that sends one Produce request encoded beforehand: a client library's own start would be measured
with it otherwise.
"""

import argparse
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

READY = "penstock ready: "
MIB = 1024 * 1024
TOPIC = "bench"
PRODUCE_VERSION = 9
CREATE_VERSION = 5

# The fixture as pytest uses it, timed from after the import: that is paid once in a test run.
FIXTURE = """
import time
from penstock.testing import running_broker
running_broker
import penstock.testing.broker
started = time.perf_counter()
with running_broker() as broker:
    print(time.perf_counter() - started)
"""
IMPORT = """
import time
started = time.perf_counter()
import penstock.testing.broker
print(time.perf_counter() - started)
"""


class Served:
    """One `penstock serve`, from its start to its end."""

    def __init__(self, data: Path) -> None:
        command = [str(Path(sys.executable).with_name("penstock")), "serve"]
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--data", str(data), "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), line
        host, port = line.removeprefix(READY).strip().rsplit(":", 1)
        self.address = (host, int(port))

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


def first_ack_seconds() -> float:
    """Process start to the ack of a record, on an empty directory and a topic made on the way."""
    with tempfile.TemporaryDirectory() as folder:
        node = Served(Path(folder) / "data")
        with socket.create_connection(node.address, 30) as connection:
            topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic])
            reply = exchange(connection, encoded(request, CREATE_VERSION))
            created = decode_response(CreateTopicsResponse, CREATE_VERSION, reply)
            assert created.topics[0].error_code == 0, created
            reply = exchange(connection, encoded(first_produce(), PRODUCE_VERSION))
            acked = decode_response(ProduceResponse, PRODUCE_VERSION, reply)
            taken = time.perf_counter() - node.started
            assert acked.responses[0].partition_responses[0].error_code == 0, acked
        node.stop()
    return taken


def idle_mib() -> float:
    """Resident memory of a node two seconds after it was ready, with nobody connected."""
    with tempfile.TemporaryDirectory() as folder:
        node = Served(Path(folder) / "data")
        time.sleep(2)
        resident = psutil.Process(node.process.pid).memory_info().rss
        node.stop()
    return resident / MIB


def fixture_seconds() -> float:
    return measured_inside(FIXTURE)


def import_seconds() -> float:
    return measured_inside(IMPORT)


def measured_inside(program: str) -> float:
    outcome = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return float(outcome.stdout)


def encoded(request: CreateTopicsRequest | ProduceRequest, version: int) -> bytes:
    parts = encode_request(request, version=version, correlation_id=1, client_id="bench")
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # no splices here


def first_produce() -> ProduceRequest:
    batch = build_batch([Record(key=b"k", value=b"v", timestamp_ms=1_700_000_000_000)])
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name=TOPIC, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def exchange(connection: socket.socket, request: bytes) -> memoryview:
    connection.sendall(request)
    with connection.makefile("rb") as replies:
        size = int.from_bytes(replies.read(4), "big")
        return memoryview(replies.read(size))


QUESTIONS: tuple[tuple[str, Callable[[], float], float, str], ...] = (
    ("process start to first acked produce", first_ack_seconds, 1000, "ms"),
    ("idle RSS of a node", idle_mib, 1, "MiB"),
    ("fixture: start-up after import", fixture_seconds, 1000, "ms"),
    ("fixture: import", import_seconds, 1000, "ms"),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=10)
    rounds = arguments.parse_args().rounds
    console = Console()
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    table = Table(title=f"start ({machine}; {rounds} rounds)")
    for heading in ("question", "median", "least", "most", "unit"):
        table.add_column(heading, justify="left" if heading in {"question", "unit"} else "right")
    for name, ask, factor, unit in QUESTIONS:
        found = [ask() * factor for _ in track(range(rounds), name, console=console)]
        shown = (statistics.median(found), min(found), max(found))
        table.add_row(name, *(f"{value:.0f}" for value in shown), unit)
    console.print(table)


if __name__ == "__main__":
    main()

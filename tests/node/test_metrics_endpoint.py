"""The endpoint of metrics: off unless asked for, bounded, and harmless whatever is sent to it."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.metrics.http import TOO_LARGE, TOO_MANY, TOO_SLOW
from penstock.model.limit import METRICS_CONNECTIONS_MAX, METRICS_REQUEST_BYTES_MAX
from rig.cluster_questions import until
from rig.running_node import RunningNode, running_node
from rig.scraping import scrape, url_in
from rig.served_cluster import PENSTOCK, NodeProcess

WAIT_SECONDS = 60
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(tmp_path, penstock_metrics_address="0") as running:
        yield running


def connect(node: RunningNode) -> socket.socket:
    address = node.node.metrics_address
    assert address is not None
    return socket.create_connection((address.host, address.port), WAIT_SECONDS)


def rest(client: socket.socket) -> bytes:
    """Up to where the node closes."""
    received = b""
    while data := client.recv(65536):
        received += data
    return received


def answered(node: RunningNode, sent: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer."""
    with connect(node) as client:
        client.sendall(sent)
        head, _, body = rest(client).partition(b"\r\n\r\n")
    return head, body


def still_serves(node: RunningNode) -> bool:
    address = node.node.metrics_address
    told = scrape(f"http://{address}/metrics")
    return told("kafka_controller_kafkacontroller_activecontrollercount") == 1


def test_it_is_of_this_machine_alone_unless_a_host_is_named(node: RunningNode) -> None:
    address = node.node.metrics_address
    assert address is not None
    assert address.host == "127.0.0.1"
    assert address.port > 0


def test_head_is_answered_without_the_text(node: RunningNode) -> None:
    head, body = answered(node, GET.replace(b"GET", b"HEAD"))
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"Content-Length: 0" not in head
    assert body == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the first bytes of TLS
        b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01",  # a request of Kafka's protocol
        b"\x00" * 100_000,
        b"GET /metrics\r\n\r\n",
        b"GET /etc/passwd HTTP/1.1\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 50_000,
        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 5_000,
        b"GET /" + b"x" * 100_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"G\xff\xfe /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics\x00 HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nAccept: text/plain\nSet-Cookie: a=b\r\n\r\n",
    ],
)
def test_bad_requests_are_answered_with_one_line(node: RunningNode, sent: bytes) -> None:
    with connect(node) as client:
        try:
            client.sendall(sent)
            head, _, body = rest(client).partition(b"\r\n\r\n")
        except ConnectionError:
            head = body = b""  # the node has closed before it had read all
    if head:
        assert head.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505"))
        assert body.endswith(b"\n")
        assert body.count(b"\n") == 1
    else:
        assert len(sent) > METRICS_REQUEST_BYTES_MAX
    assert still_serves(node)


@pytest.mark.parametrize("version", ["abc", "1..0", "1.0.0.a", "9" * 5_000, ""])
@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
def test_whatever_format_is_asked_for_one_is_given(
    node: RunningNode, kind: str, version: str
) -> None:
    accept = f"Accept: {kind}; version={version}".encode()
    head, _ = answered(node, b"GET /metrics HTTP/1.1\r\n" + accept + b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert f"Content-Type: {kind}; version=".encode() in head
    assert still_serves(node)


def test_a_request_that_is_too_large_is_told_so(node: RunningNode) -> None:
    _, body = answered(node, b"G" * METRICS_REQUEST_BYTES_MAX)
    assert body.decode() == TOO_LARGE.line + "\n"


def test_a_request_that_is_never_complete_is_ended(node: RunningNode) -> None:
    _, body = answered(node, b"GET /metrics HTTP/1.1\r\n")
    assert body.decode() == TOO_SLOW.line + "\n"


def test_clients_that_go_away_leave_nothing_behind(node: RunningNode) -> None:
    for sent in (b"", b"GET", GET):
        for _ in range(METRICS_CONNECTIONS_MAX + 1):
            with connect(node) as client:
                client.sendall(sent)
    until("a scrape is answered again", lambda: still_serves(node))


def test_more_connections_than_may_be_are_refused(node: RunningNode) -> None:
    with ExitStack() as opened:
        for _ in range(METRICS_CONNECTIONS_MAX):
            opened.enter_context(connect(node))
        with connect(node) as one_more:
            head, _, body = rest(one_more).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert body.decode() == TOO_MANY.line + "\n"
    until("a scrape is answered again", lambda: still_serves(node))


def test_values_are_right_while_producers_are_at_work(node: RunningNode) -> None:
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 3)])["orders"].result(WAIT_SECONDS)
    stopping = threading.Event()
    acked = [0, 0, 0]

    def count(error: KafkaError | None, message: object) -> None:
        assert error is None
        acked[message.partition()] += 1  # type: ignore[attr-defined]  # of a compiled module

    def work() -> None:
        producer = Producer({**settings, "linger.ms": 0})
        number = 0
        while not stopping.is_set():
            producer.produce("orders", b"v" * 100, partition=number % 3, on_delivery=count)
            number += 1
            producer.poll(0.001)
        producer.flush()

    worker = threading.Thread(target=work)
    worker.start()
    url = f"http://{node.node.metrics_address}/metrics"
    ends = []
    try:
        for _ in range(20):
            at_least = list(acked)
            told = scrape(url)
            now = [
                told("kafka_log_log_logendoffset", topic="orders", partition=str(index))
                for index in range(3)
            ]
            assert all(end >= known for end, known in zip(now, at_least, strict=True))
            ends.append(now)
            time.sleep(0.02)
    finally:
        stopping.set()
        worker.join()
    for before, after in pairwise(ends):
        assert all(one <= other for one, other in zip(before, after, strict=True))
    assert sum(ends[-1]) > sum(ends[0])
    told = scrape(url)
    assert acked == [
        told("kafka_log_log_logendoffset", topic="orders", partition=str(index))
        for index in range(3)
    ]


def test_topics_that_come_and_go_do_not_disturb_scrapes(node: RunningNode) -> None:
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(settings)
    stopping = threading.Event()
    made = 0

    def work() -> None:
        nonlocal made
        while not stopping.is_set():
            name = f"brief-{made}"
            admin.create_topics([NewTopic(name, 50)])[name].result(WAIT_SECONDS)
            admin.delete_topics([name])[name].result(WAIT_SECONDS)
            made += 1

    worker = threading.Thread(target=work)
    worker.start()
    try:
        until("some topics came and went", lambda: still_serves(node) and made >= 5)
    finally:
        stopping.set()
        worker.join()
    told = scrape(f"http://{node.node.metrics_address}/metrics")
    assert told("kafka_server_replicamanager_partitioncount") == 0
    assert {labels["topic"] for labels, _ in told.all("kafka_log_log_size")} == {
        "__cluster_metadata"
    }


def test_scrapes_at_once_are_all_answered(node: RunningNode) -> None:
    url = f"http://{node.node.metrics_address}/metrics"
    found: list[float] = []

    def look() -> None:
        found.append(scrape(url)("kafka_server_raftmetrics_number_of_voters"))

    threads = [threading.Thread(target=look) for _ in range(METRICS_CONNECTIONS_MAX - 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1.0] * len(threads)


def test_a_node_stops_while_a_client_holds_its_connection(tmp_path: Path) -> None:
    with running_node(tmp_path, penstock_metrics_address="0") as node:
        client = connect(node)
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
    with suppress(ConnectionResetError):
        assert client.recv(1) == b""
    client.close()


def test_a_port_that_is_taken_ends_the_start_with_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = serve(data, "--metrics", address)
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1].endswith(
        f"cannot listen on {address}: Address already in use"
    )
    assert not data.exists()


@pytest.mark.parametrize("wrong", ["", "nine", "127.0.0.1", "127.0.0.1:70000", "a:b:1", "/x:1"])
def test_an_address_that_is_none_is_refused_with_one_line(tmp_path: Path, wrong: str) -> None:
    outcome = serve(tmp_path, "--metrics", wrong)
    assert outcome.returncode == 1
    assert outcome.stdout == ""
    [line] = outcome.stderr.splitlines()
    assert "penstock.metrics.address" in line
    assert "127.0.0.1:9404" in line


def serve(data: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PENSTOCK, "serve", "--data", str(data), "--listen", "127.0.0.1:0", *options],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )


LOADED = """
import asyncio, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from rig.running_node import running_node
settings = {"penstock_metrics_address": "0"} if sys.argv[3] == "on" else {}
with running_node(Path(sys.argv[1]), **settings) as node:
    names = ("prometheus_client", "penstock.node.metrics", "penstock.metrics.family",
             "penstock.broker.metrics.exposition", "penstock.broker.metrics.certificates")
    print([name for name in names if name in sys.modules], node.node.metrics_address is None)
"""


@pytest.mark.parametrize(
    ("how", "loaded"),
    [
        ("off", "[] True"),
        (
            "on",
            "['prometheus_client', 'penstock.node.metrics', 'penstock.metrics.family',"
            " 'penstock.broker.metrics.exposition'] False",
        ),
    ],
)
def test_nothing_of_it_is_loaded_by_a_node_that_does_not_tell(
    tmp_path: Path, how: str, loaded: str
) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path), tests, how],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert outcome.stdout.strip() == loaded, outcome.stderr


@pytest.mark.parametrize("options", [(), ("--metrics", "0")])
def test_a_port_is_open_only_where_it_was_asked_for(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    command = [PENSTOCK, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    process = NodeProcess("serve", [*command, *options], tmp_path / "log")
    process.begin()
    try:
        ready = process.until_logged("penstock ready: ").rpartition(":")[2]
        listening = {
            one.laddr.port
            for one in psutil.Process(process.pid).net_connections("tcp")
            if one.status == psutil.CONN_LISTEN
        }
        metrics = {int(url_in(process.logged()).split(":")[-1].split("/")[0])} if options else set()
        assert listening == {int(ready), *metrics}
    finally:
        assert process.end() == 0

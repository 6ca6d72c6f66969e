"""What `penstock doctor` knows by the metrics of nodes: what they have open against their limit,
and which acks producers ask for.
"""

import asyncio
import re
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.client.network.errors import ClientError
from penstock.doctor.gather_metrics import metrics_page
from penstock.model.identity import NodeId
from penstock.testing import running_broker
from penstock.world.clock import RealClock
from penstock.world.ports import Address
from rig.cluster_questions import until
from rig.command import Outcome
from rig.examined import Examined
from rig.held_port import HeldPort
from rig.scraping import scrape
from rig.serve import ServedNode

Run = Callable[..., Outcome]
CONNECTIONS = 200
CLOCK = RealClock()


@pytest.fixture
def metrics() -> HeldPort:
    return HeldPort()


@pytest.fixture
def node(tmp_path: Path, metrics: HeldPort) -> Iterator[ServedNode]:
    served = ServedNode(
        data=tmp_path / "node", settings={"penstock.metrics.address": metrics.address}
    )
    served.start()
    yield served
    served.stop()


def test_descriptors_are_held_against_the_limit_of_the_node(
    run: Run, node: ServedNode, metrics: HeldPort
) -> None:
    examined = Examined(run, node.bootstrap)
    assert examined.status("descriptors") == "pass"
    host, _, port = node.bootstrap.rpartition(":")
    before = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connections.enter_context(socket.create_connection((host, int(port))))
        until("all are accepted", lambda: opened(metrics) > CONNECTIONS)
        for limit, status in ((opened(metrics) * 11 // 10, "warn"), (opened(metrics) + 8, "fail")):
            resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
            found = examined.report()["descriptors"]
            assert found["status"] == status, found
            assert found["reason"].endswith(f" of {limit:,} descriptors open")
            assert found["faults"][0]["advice"].startswith("raise ulimit -n of broker 1 ")
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, before)
        assert examined.status("descriptors") == "pass"


@contextmanager
def writing(bootstrap: str, acks: str) -> Iterator[None]:
    """A producer that goes on while others look."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.02):
            producer.produce("orders", b"v", partition=0)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        assert producer.flush(60) == 0


def test_producers_that_do_not_wait_for_all_replicas_are_found_until_they_do(
    run: Run, node: ServedNode
) -> None:
    examined = Examined(run, node.bootstrap)

    def status(acks: str) -> str:
        with writing(node.bootstrap, acks):
            until("it is written", lambda: examined.status("idempotence") == "warn")
            return examined.status("acks")

    assert status("all") == "pass"
    assert status("0") == "warn"
    assert status("1") == "warn"
    assert status("all") == "pass"  # though the node counts since it started
    found = examined.report()["acks"]
    assert found["status"] == "unknown", found
    assert re.fullmatch(
        r"orders: [0-9,]+ batches with acks=0 or 1 since its brokers started, and nothing was"
        r" written to it within [3-9]\.[0-9] s",
        found["reason"],
    )
    assert found["faults"][0]["advice"].startswith("examine it while its producers write; ")


def opened(metrics: HeldPort) -> int:
    return int(scrape(f"http://{metrics.address}/metrics")("process_open_fds"))


def test_the_metrics_of_one_node_are_not_taken_for_those_of_another(
    node: ServedNode, metrics: HeldPort
) -> None:
    """As on a loopback, where each machine has a node that tells them at the same address."""
    address = Address(host="127.0.0.1", port=metrics.number)
    [(info, _)] = scrape(f"http://{metrics.address}/metrics").all("penstock_node_info")
    cluster_id = info["cluster_id"]
    for known in (cluster_id, None):
        page = asyncio.run(metrics_page(address, NodeId(1), CLOCK, cluster_id=known))
        assert b"process_open_fds" in page.text
    for node_id, cluster in ((2, cluster_id), (11, cluster_id), (1, "another")):
        with pytest.raises(ClientError, match="on its own machine alone"):
            asyncio.run(metrics_page(address, NodeId(node_id), CLOCK, cluster_id=cluster))


def test_a_node_whose_metrics_cannot_be_reached_is_unknown(run: Run) -> None:
    """As one behind another address than the one it knows: here it tells them at any port."""
    with running_broker(settings={"penstock.metrics.address": "0"}) as broker:
        found = Examined(run, broker.bootstrap).report()["descriptors"]
    assert (found["status"], found["reason"]) == (
        "unknown",
        "broker 1 tells its metrics at a port that no request tells",
    )

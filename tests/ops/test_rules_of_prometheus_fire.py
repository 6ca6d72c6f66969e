"""The rules that Prometheus alone has fire by a real fault, and clear when it is over.

The others are those of the nodes, which are made to fire in tests/node/test_alerts*.py.
"""

import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.cluster_questions import until
from rig.held_port import HeldPort
from rig.quick_prometheus import QuickPrometheus
from rig.reassigning import create_on
from rig.scraping import scrape, url_in
from rig.serve import ServedNode
from rig.served_cluster import ServedCluster

WAIT_SECONDS = 120
CONNECTIONS = 200
QUIET_SECONDS = 1.0


@pytest.fixture
def metrics() -> HeldPort:
    return HeldPort()


@pytest.fixture
def node(tmp_path: Path, metrics: HeldPort) -> Iterator[ServedNode]:
    settings = {"penstock.metrics.address": metrics.address, "offsets.topic.num.partitions": "1"}
    served = ServedNode(data=tmp_path / "node", settings=settings)
    served.start()
    yield served
    if served.running:
        served.stop()


def watched(alert: str, metrics: HeldPort) -> QuickPrometheus:
    """Of the one node; nothing is the matter with it yet."""
    made = QuickPrometheus(alert=alert, urls=lambda: [f"http://{metrics.address}/metrics"])
    made.watch(QUIET_SECONDS)
    return made


def test_a_node_that_is_down_is_told_until_it_is_back(node: ServedNode, metrics: HeldPort) -> None:
    prometheus = watched("PenstockNodeDown", metrics)
    node.kill()
    assert prometheus.until_fires() == {"job": "penstock", "instance": metrics.address}
    node.start()
    prometheus.until_clears()


def test_a_group_that_is_records_behind_is_told_until_it_has_read_them(
    node: ServedNode, metrics: HeldPort
) -> None:
    prometheus = watched("PenstockGroupLagRecords", metrics)
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_SECONDS)
    producer = Producer({**client, "linger.ms": 50, "queue.buffering.max.messages": 200_000})
    for number in range(100_010):
        producer.produce("orders", b"v", partition=number % 2)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({**client, "group.id": "billing"})

    def commit(*offsets: int) -> None:
        places = [TopicPartition("orders", index, one) for index, one in enumerate(offsets)]
        consumer.commit(offsets=places, asynchronous=False)

    commit(5, 5)
    prometheus.watch(6)  # 100,000 are not too many, for longer than the rule waits
    commit(5, 4)
    wanted = {"job": "penstock", "group": "billing", "topic": "orders"}
    assert prometheus.until_fires() == wanted
    assert list(prometheus.firing.values()) == [100_001]
    commit(50_005, 4)
    prometheus.until_clears()
    consumer.close()


def test_an_event_loop_that_is_late_is_told_until_it_keeps_up(
    node: ServedNode, metrics: HeldPort
) -> None:
    prometheus = QuickPrometheus(
        alert="PenstockEventLoopLag", urls=lambda: [f"http://{metrics.address}/metrics"]
    )

    def stand_still() -> None:
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(0.7)
        os.kill(node.pid, signal.SIGCONT)
        time.sleep(0.2)  # it tells how late it was

    fired = prometheus.until_fires(stand_still)
    assert fired == {"job": "penstock", "instance": metrics.address}
    assert min(prometheus.firing.values()) > 0.25
    prometheus.until_clears()


def test_descriptors_that_run_out_are_told_until_there_are_enough(
    node: ServedNode, metrics: HeldPort
) -> None:
    prometheus = watched("PenstockDescriptorsRunOut", metrics)
    url = f"http://{metrics.address}/metrics"
    host, _, port = node.bootstrap.rpartition(":")
    before = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connections.enter_context(socket.create_connection((host, int(port))))
        until("all are accepted", lambda: scrape(url)("process_open_fds") > CONNECTIONS)
        limit = int(scrape(url)("process_open_fds") * 1.2)
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
        assert prometheus.until_fires() == {"job": "penstock", "instance": metrics.address}
        assert all(0.8 < value < 0.9 for value in prometheus.firing.values())
    prometheus.until_clears()


def test_an_unclean_election_is_told_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    """Three of the nodes vote: while the fourth and one of them are down, a majority is left."""
    with ServedCluster(tmp_path / "data", 4, penstock_metrics_address="0") as cluster:
        cluster.start()
        prometheus = QuickPrometheus(
            alert="PenstockUncleanElection",
            urls=lambda: [url_in(one.logged()) for one in cluster.nodes.values()],
        )
        prometheus.watch(QUIET_SECONDS)
        client = {"bootstrap.servers": cluster.bootstrap}
        behind, leader = 3, 4
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        create_on(cluster.addresses[1], "orders", [[leader, behind]], config)
        cluster.nodes[behind].end(signal.SIGKILL)
        producer = Producer({**client, "acks": "all"})
        producer.produce("orders", b"only the leader has it")
        assert producer.flush(WAIT_SECONDS) == 0
        cluster.nodes[leader].end(signal.SIGKILL)
        prometheus.watch(QUIET_SECONDS)  # that is no election yet

        cluster.start(behind)
        fired = prometheus.until_fires()  # by each that saw it
        saw = [url_in(cluster.nodes[key].logged()) for key in (1, 2, behind)]
        assert f"http://{fired['instance']}/metrics" in saw
        assert set(prometheus.firing.values()) == {1}
        prometheus.until_clears()

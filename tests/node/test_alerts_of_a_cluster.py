"""Three nodes tell of a loss and of its end: each what it knows, the cluster's alerts once."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.alerts.delivery import AlertRecords
from penstock.client.admin.alert_reports import read_alert_records
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.cluster_questions import active_controller, until
from rig.reassigning import create_on
from rig.served_cluster import ServedCluster
from rig.webhook import Receiver, receiver

WAIT_SECONDS = 120
QUICK = {
    "penstock_alerts_enable": "true",
    "penstock_alerts_interval_ms": "200",
    "penstock_alerts_for_ms": "500",
    "penstock_alerts_clear_ms": "500",
    "penstock_alerts_disk_ratio": "1",
}
NO_TOPIC = {"penstock_alerts_topic": ""}
HOUR_MS = 3_600_000
OF_CLUSTER = ("PenstockOfflinePartitions", "PenstockBrokerFenced")
OF_LEADERS = ("PenstockUnderReplicated", "PenstockUnderMinInSync")
STANDS_STILL_SECONDS = 3  # less than a session
NO_CONTROLLER = "PenstockNoActiveController"


def told_by(hook: Receiver, alert: str) -> dict[int, list[str]]:
    """The states that each node has told."""
    found: dict[int, list[str]] = {}
    for one in hook.bodies:
        if one["alert"] == alert:
            found.setdefault(one["node"], []).append(one["state"])
    return found


def create(bootstrap: str, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(list(topics)).values():
        made.result(WAIT_SECONDS)


def in_topic(nodes: ServedCluster) -> AlertRecords:
    async def read() -> AlertRecords:
        addresses = parse_addresses(nodes.bootstrap)
        async with Cluster(TcpNetwork(), RealClock(), addresses) as cluster:
            try:
                return await read_alert_records(cluster, "__penstock_alerts")
            except Refused:
                return AlertRecords()  # nobody has made it yet

    return asyncio.run(read())


def is_in_topic(nodes: ServedCluster, alert: str) -> bool:
    return f"cluster/{alert}/".encode() in in_topic(nodes).reports


def was_taken(nodes: ServedCluster, alert: str) -> bool:
    return f"cluster/{alert}/".encode() in in_topic(nodes).deliveries


def test_a_killed_node_is_told_of_and_its_return_too(tmp_path: Path) -> None:
    with (
        receiver() as hook,
        ServedCluster(
            tmp_path / "data",
            penstock_alerts_webhook_url=hook.url,
            **QUICK,
        ) as cluster,
    ):
        cluster.start()
        create(
            cluster.bootstrap,
            NewTopic("orders", 6, 3),
            NewTopic("strict", 6, 3, config={"min.insync.replicas": "3"}),
            NewTopic("alone", 3, 1),
        )
        lost = 3
        left = {1, 2}

        cluster.nodes[lost].end(signal.SIGKILL)
        for alert in OF_CLUSTER:
            hook.until(alert, "firing")
        for alert in OF_LEADERS:
            hook.until(alert, "firing", times=len(left))

        cluster.start(lost)
        for alert in OF_CLUSTER:
            hook.until(alert, "cleared")
        for alert in OF_LEADERS:
            hook.until(alert, "cleared", times=len(left))
        for alert in OF_CLUSTER:
            assert [one["state"] for one in hook.bodies if one["alert"] == alert] == [
                "firing",
                "cleared",
            ]
        for alert in OF_LEADERS:
            assert told_by(hook, alert) == {node: ["firing", "cleared"] for node in left}


def test_the_loss_of_a_majority_of_controllers_is_told_once(tmp_path: Path) -> None:
    """By the one that was active. Both waits are longer than elections, in which nobody is."""
    wait_ms = 5_000
    waits = {"penstock_alerts_for_ms": str(wait_ms), "penstock_alerts_clear_ms": str(wait_ms)}
    with (
        receiver() as hook,
        ServedCluster(
            tmp_path / "data", penstock_alerts_webhook_url=hook.url, **{**QUICK, **waits}
        ) as cluster,
    ):
        cluster.start()
        survivor = active_controller(cluster.addresses.values())
        lost = cluster.nodes.keys() - {survivor}
        for node in lost:
            cluster.nodes[node].end(signal.SIGKILL)
        killed_ms = time.time() * 1_000
        hook.until(NO_CONTROLLER, "firing")
        cluster.start(*lost)
        until("it clears", lambda: "cleared" in told_by(hook, NO_CONTROLLER)[survivor])
        time.sleep(1.5 * wait_ms / 1_000)  # it could fire again meanwhile
        assert told_by(hook, NO_CONTROLLER)[survivor] == ["firing", "cleared"]
        [fired, _] = [
            one["at_ms"]
            for one in hook.bodies
            if (one["alert"], one["node"]) == (NO_CONTROLLER, survivor)
        ]
        assert fired >= killed_ms + wait_ms


def test_a_voter_that_followed_tells_of_the_loss_of_the_controllers_too(tmp_path: Path) -> None:
    wait_ms = 5_000
    with (
        receiver() as hook,
        ServedCluster(
            tmp_path / "data",
            penstock_alerts_webhook_url=hook.url,
            **{**QUICK, "penstock_alerts_for_ms": str(wait_ms)},
        ) as cluster,
    ):
        cluster.start()
        active = active_controller(cluster.addresses.values())
        survivor, other = sorted(cluster.nodes.keys() - {active})
        for node in (active, other):
            cluster.nodes[node].end(signal.SIGKILL)
        until("nobody leads", lambda: survivor in told_by(hook, NO_CONTROLLER))
        assert told_by(hook, NO_CONTROLLER)[survivor] == ["firing"]


def test_a_group_that_lags_where_its_coordinator_has_no_replica_is_told_until_it_has_read_all(
    tmp_path: Path,
) -> None:
    with (
        receiver() as hook,
        ServedCluster(
            tmp_path / "data",
            **QUICK,
            **NO_TOPIC,
            penstock_alerts_webhook_url=hook.url,
            offsets_topic_num_partitions="1",
        ) as cluster,
    ):
        cluster.start()
        # One partition for each node: whoever coordinates, two are elsewhere.
        create_on(cluster.addresses[1], "orders", [[1], [2], [3]])
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        hour_ago_ms = int(time.time() * 1000) - HOUR_MS
        for index in range(3):
            for _ in range(3):
                producer.produce("orders", b"v", partition=index, timestamp=hour_ago_ms)
        producer.flush()
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})

        def commit(offset: int) -> None:
            offsets = [TopicPartition("orders", index, offset) for index in range(3)]
            consumer.commit(offsets=offsets, asynchronous=False)

        commit(3)
        coordinator = leader_of_offsets(cluster)
        stuck = TopicPartition("orders", coordinator % 3, 1)  # on the next node
        consumer.commit(offsets=[stuck], asynchronous=False)
        lag = hook.until("PenstockGroupLagSeconds", "firing")
        assert lag["subject"] == "billing orders"
        assert lag["node"] == coordinator
        assert 3_600 <= lag["value"] < 7_200
        hook.until("PenstockGroupWithoutMembers", "firing")
        commit(3)
        hook.until("PenstockGroupLagSeconds", "cleared")
        hook.until("PenstockGroupWithoutMembers", "cleared")
        consumer.close()


def leader_of_offsets(nodes: ServedCluster) -> int:
    found = AdminClient({"bootstrap.servers": nodes.bootstrap}).list_topics(timeout=WAIT_SECONDS)
    leader: int = found.topics["__consumer_offsets"].partitions[0].leader
    return leader


def test_a_follower_that_stands_still_makes_produce_slow_until_it_goes_on(tmp_path: Path) -> None:
    alert = "PenstockProduceSlow"
    with (
        receiver() as hook,
        ServedCluster(
            tmp_path / "data",
            **QUICK,
            penstock_alerts_webhook_url=hook.url,
            penstock_alerts_topic="",  # what is written to it would be produce requests too
            penstock_alerts_produce_ms="1000",
            penstock_alerts_produce_window_ms="3000",
        ) as cluster,
    ):
        cluster.start()
        create(cluster.bootstrap, NewTopic("orders", 3, 3))
        stopped = 3
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
        os.kill(cluster.nodes[stopped].pid, signal.SIGSTOP)
        try:
            for partition in range(3):
                producer.produce("orders", b"v", partition=partition)
            producer.poll(0)
            time.sleep(STANDS_STILL_SECONDS)
        finally:
            os.kill(cluster.nodes[stopped].pid, signal.SIGCONT)
        assert producer.flush(WAIT_SECONDS) == 0
        body = hook.until(alert, "firing")
        assert body["value"] > 1_000
        # Each leader that waited for the follower tells of itself.
        until(
            "all have cleared",
            lambda: all("cleared" in states for states in told_by(hook, alert).values()),
        )
        told = told_by(hook, alert)
        assert stopped not in told
        assert all(states == ["firing", "cleared"] for states in told.values()), told


def replicas_of_topic(nodes: ServedCluster) -> int:
    """0: there is no such topic."""
    found = AdminClient({"bootstrap.servers": nodes.bootstrap}).list_topics(timeout=WAIT_SECONDS)
    topic = found.topics.get("__penstock_alerts")
    return 0 if topic is None else len(topic.partitions[0].replicas)


def test_a_topic_that_is_first_needed_while_a_broker_is_down_has_all_replicas(
    tmp_path: Path,
) -> None:
    with (
        receiver() as hook,
        ServedCluster(tmp_path / "data", penstock_alerts_webhook_url=hook.url, **QUICK) as nodes,
    ):
        nodes.start()
        lost = 3
        nodes.nodes[lost].end(signal.SIGKILL)
        controller = nodes.nodes[hook.until("PenstockBrokerFenced", "firing")["node"]]
        until(
            "the topic is made or waited for",
            lambda: replicas_of_topic(nodes) or "not written to their topic" in controller.logged(),
        )
        nodes.start(lost)
        until("it is in the topic", lambda: is_in_topic(nodes, "PenstockBrokerFenced"))
        assert replicas_of_topic(nodes) == 3


@pytest.mark.parametrize("is_away", [False, True])
def test_the_next_controller_goes_on_with_what_the_last_one_told(
    tmp_path: Path, is_away: bool
) -> None:
    """Also with what the receiver did not take then."""
    alert = "PenstockOfflinePartitions"
    with (
        receiver() as hook,
        ServedCluster(tmp_path / "data", 4, penstock_alerts_webhook_url=hook.url, **QUICK) as nodes,
    ):
        hook.is_away = is_away
        nodes.start()
        create(nodes.bootstrap, NewTopic("alone", 8, 1))
        only_broker = 4  # three of them vote
        controller = active_controller(nodes.addresses.values())
        nodes.nodes[only_broker].end(signal.SIGKILL)
        until("it is in the topic", lambda: is_in_topic(nodes, alert))
        if not is_away:
            until("it was taken", lambda: was_taken(nodes, alert))
        nodes.nodes[controller].end(signal.SIGKILL)
        hook.is_away = False
        hook.until(alert, "firing")
        nodes.start(controller, only_broker)
        assert hook.until(alert, "cleared")["node"] != controller
        assert hook.told(alert) == [("firing", ""), ("cleared", "")]
        assert told_by(hook, alert)[controller] == ["firing"]

"""Nodes that are killed lose nothing that was acknowledged, and nothing is done twice.

Three nodes as processes; AdminClients create, configure and delete topics all the time. A creation
that was under way when the controller went is sent to the next one, which knows the topic by the
id that the forwarding broker has proposed.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.admin_load import AdminLoad
from rig.cluster_questions import is_whole, until
from rig.controller_kills import ControllerKills, lasting_differences
from rig.served_cluster import ServedCluster

# `bench/controller_kills.py` has more, beside Apache Kafka.
KILLS = 5
# What a node that starts has logged when it is killed.
MOMENTS_OF_A_START = ("record_kernel kind=", "recovery segments_scanned=", "quorum role=")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path) as served:
        served.start()
        yield served


def test_acknowledged_changes_outlive_kills_of_the_active_controller_and_are_done_once(
    cluster: ServedCluster,
) -> None:
    kills = ControllerKills(cluster)
    try:
        for _ in range(KILLS):
            kills.kill_once()
    finally:
        report = kills.finish()
    assert report.faults == []
    assert report.repeated == []
    assert report.acked > KILLS


@contextmanager
def changing_topics(cluster: ServedCluster) -> Iterator[AdminLoad]:
    """Compares at the end, when the cluster runs again."""
    until("the cluster is whole", lambda: is_whole(cluster))
    load = AdminLoad(cluster.bootstrap)
    try:
        with load.running():
            yield load
            until("the cluster is whole again", lambda: is_whole(cluster))
    finally:
        load.finish()
    assert load.unexpected == []
    assert load.repeated == []
    assert lasting_differences(cluster, load.entries) == []


def test_acknowledged_changes_outlive_a_kill_of_all_nodes_at_once(cluster: ServedCluster) -> None:
    with changing_topics(cluster) as load:
        for _ in range(2):
            load.first_after(time.monotonic())
            for node in cluster.nodes.values():
                node.end(signal.SIGKILL)
            cluster.start()
        load.first_after(time.monotonic())


def test_a_node_that_is_killed_while_it_starts_comes_back_at_the_next_start(
    cluster: ServedCluster,
) -> None:
    with changing_topics(cluster) as load:
        node = cluster.nodes[2]
        node.end(signal.SIGKILL)
        for moment in MOMENTS_OF_A_START:
            seen = node.logged().count(moment)
            node.begin()
            node.until_logged(moment, times=seen + 1)
            node.end(signal.SIGKILL)
        load.first_after(time.monotonic())
        cluster.start(2)

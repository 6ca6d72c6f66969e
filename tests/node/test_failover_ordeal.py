"""Nothing acked is lost or doubled while nodes of a replicated cluster are killed under load.

Three nodes as processes, partitions with three replicas, min.insync.replicas=2; idempotent
producers of confluent-kafka, kafka-python and, where there is one, Java. Three rows of the failure
table (see `test_failure_table.py`); `bench/failover_ordeal.py` has more.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.jars import PeerMissing, fetched_jars
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.ordeal import FailoverOrdeal, Fault
from rig.failover.producers import java_producer_command

pytestmark = pytest.mark.slow

RATE = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failover")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(PenstockSoftware(), folder / "cluster", settings=BRISK_SESSIONS) as made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def java(folder: Path) -> list[str] | None:
    """The command of the Java producer, which goes along where Java is installed."""
    try:
        return java_producer_command(jars=fetched_jars(), folder=folder)
    except PeerMissing:
        return None


def assert_nothing_is_lost(
    cluster: ReplicatedCluster, java: list[str] | None, topic: str, *faults: Fault
) -> None:
    """What was acked outlives every fault, and replicas are equal."""
    ordeal = FailoverOrdeal(cluster, seed=14, rate=RATE, java=java, topic=topic)
    try:
        for fault in faults:
            ordeal.strike(fault)
    finally:
        report = ordeal.finish()
    assert report.faults == []


def test_broker_down(cluster: ReplicatedCluster, java: list[str] | None) -> None:
    faults = (Fault.LEADER, Fault.FOLLOWER, Fault.STARTING, Fault.TWO, Fault.ALL)
    assert_nothing_is_lost(cluster, java, "broker-down", *faults)


def test_controller_failure(cluster: ReplicatedCluster, java: list[str] | None) -> None:
    assert_nothing_is_lost(cluster, java, "controller-failure", Fault.CONTROLLER)


def test_data_loss_on_leader_change(cluster: ReplicatedCluster, java: list[str] | None) -> None:
    faults = (Fault.AHEAD, Fault.PAUSED, Fault.WIPED)
    assert_nothing_is_lost(cluster, java, "leader-change", *faults)

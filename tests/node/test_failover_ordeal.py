"""Nothing acked is lost or doubled while nodes of a replicated cluster are killed under load.

Three nodes as processes, partitions with three replicas, min.insync.replicas=2; idempotent
producers of confluent-kafka, kafka-python and, where there is one, Java.
`bench/failover_ordeal.py` has more.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.jars import PeerMissing, fetched_jars
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.ordeal import FailoverOrdeal, Fault
from rig.failover.producers import java_producer_command

RATE = 100
ROUNDS = (
    (Fault.LEADER, Fault.AHEAD, Fault.PAUSED, Fault.FOLLOWER),
    (Fault.CONTROLLER, Fault.TWO, Fault.WIPED, Fault.STARTING, Fault.ALL),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(
        PenstockSoftware(), tmp_path / "cluster", settings=BRISK_SESSIONS
    ) as made:
        made.start()
        yield made


@pytest.fixture
def java(tmp_path: Path) -> list[str] | None:
    """The command of the Java producer, which goes along where Java is installed."""
    try:
        return java_producer_command(jars=fetched_jars(), folder=tmp_path)
    except PeerMissing:
        return None


@pytest.mark.parametrize("faults", ROUNDS, ids=["one at a time", "several at once"])
def test_what_was_acked_outlives_every_fault_and_replicas_are_equal(
    cluster: ReplicatedCluster, java: list[str] | None, faults: tuple[Fault, ...]
) -> None:
    ordeal = FailoverOrdeal(cluster, seed=14, rate=RATE, java=java)
    try:
        for fault in faults:
            ordeal.strike(fault)
    finally:
        report = ordeal.finish()
    assert report.faults == []
    assert report.open == 0, report.errors

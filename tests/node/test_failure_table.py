"""The failure table: each row has a test of its name, with real processes. `ROWS` says where.

Three nodes, all topics with three replicas, min.insync.replicas=2.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.cluster_questions import until
from rig.failover.acked_records import AckedRecords, unacked
from rig.failover.cluster import PenstockSoftware, ReplicatedCluster
from rig.failover.producers import ConfluentLedgerProducer
from rig.failover.proof import faults_at_the_end
from rig.failover.questions import create_replicated, leader_of, partition_states
from rig.source_tree import ROOT

HERE = "tests/node/test_failure_table.py"
ROWS = {
    "broker down": "tests/node/test_failover_ordeal.py",
    "controller failure": "tests/node/test_failover_ordeal.py",
    "network partition": "tests/node/test_network_ordeal.py",
    "producer retry storm": HERE,
    "consumer rebalance storm": "tests/interop/test_rebalance_storm.py",
    "offset commit failure": "tests/node/test_coordinators_killed.py",
    "partition imbalance": HERE,
    "data loss on leader change": "tests/node/test_failover_ordeal.py",
}
PARTITIONS = 6
STORMING = 12  # producers
RETRIES = 3  # of each, before the node that stands still goes on
RATE = 50
IMPATIENT = {"socket.timeout.ms": 200, "statistics.interval.ms": 100}
SETTINGS = {"leader.imbalance.check.interval.seconds": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ReplicatedCluster(PenstockSoftware(), folder, settings=SETTINGS) as made:
        made.start()
        yield made


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_a_test_of_its_name(row: str) -> None:
    source = Path(ROOT / ROWS[row]).read_text(encoding="utf-8")
    assert f"def test_{row.replace(' ', '_')}(" in source


class StormyProducer:
    """Gives a request up after a moment, and sends it again on another connection."""

    def __init__(self, cluster: ReplicatedCluster, topic: str, number: int) -> None:
        self.given_up = 0
        self.records = AckedRecords(f"stormy{number}", partitions=PARTITIONS)
        settings = {**IMPATIENT, "stats_cb": self._count}
        self._producer = ConfluentLedgerProducer(
            cluster.bootstrap, topic, self.records, rate=RATE, settings=settings
        )

    def until_more_acked(self) -> None:
        wanted = self.records.count + PARTITIONS
        self.records.until(lambda: self.records.count >= wanted, what="more acks")

    def finish(self) -> None:
        self._producer.finish()

    def _count(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self.given_up = sum(broker["req_timeouts"] for broker in brokers)


def test_producer_retry_storm(cluster: ReplicatedCluster) -> None:
    """A leader stands still for a while, and many producers send the same again and again: each
    record is stored once and in order, and no producer is told of it.
    """
    topic = "storm"
    create_replicated(cluster, topic, partitions=PARTITIONS)
    producers = [StormyProducer(cluster, topic, number) for number in range(STORMING)]
    try:
        for partition in range(2):
            for producer in producers:
                producer.until_more_acked()
            before = [producer.given_up for producer in producers]
            pid = cluster.nodes[leader_of(cluster, topic, partition)].pid
            os.kill(pid, signal.SIGSTOP)
            try:
                until(
                    "all producers have retried",
                    lambda before=before: all(
                        producer.given_up >= count + RETRIES
                        for producer, count in zip(producers, before, strict=True)
                    ),
                )
            finally:
                os.kill(pid, signal.SIGCONT)
        for producer in producers:
            producer.until_more_acked()
    finally:
        for producer in producers:
            producer.finish()
    promised = [producer.records for producer in producers]
    assert unacked(promised) == []
    assert faults_at_the_end(cluster, topic, promised, partitions=PARTITIONS) == []


def test_partition_imbalance(cluster: ReplicatedCluster) -> None:
    """A node that was restarted leads nothing, and soon its share again; producers notice nothing
    of either.
    """
    topic = "balanced"
    create_replicated(cluster, topic, partitions=PARTITIONS)
    number = leader_of(cluster, topic, 0)
    other = next(address for one, address in cluster.addresses.items() if one != number)

    def led() -> Counter[int | None]:
        return Counter(state.leader for state in partition_states(other, topic).values())

    share = {node: PARTITIONS // len(cluster.nodes) for node in cluster.nodes}
    assert led() == share
    records = AckedRecords("steady", partitions=PARTITIONS)
    producer = ConfluentLedgerProducer(cluster.bootstrap, topic, records, rate=RATE)
    try:
        assert cluster.nodes[number].end() == 0
        until("the others lead", lambda: led()[number] == 0)
        cluster.start(number)
        until("each leads its share", lambda: led() == share)
        records.until(lambda: records.count >= 2 * PARTITIONS, what="acks")
    finally:
        producer.finish()
    assert unacked([records]) == []
    assert faults_at_the_end(cluster, topic, [records], partitions=PARTITIONS) == []

"""An application reads, transforms and writes on three nodes that are killed one by one meanwhile:
coordinators of its group and of its transactions, leaders, the active controller.

`bench/soak.py exactly-once --nodes 3` does it for longer.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.cluster_questions import until
from rig.failover.cluster import (
    BRISK_SESSIONS,
    KafkaSoftware,
    PenstockSoftware,
    ReplicatedCluster,
    Software,
)
from rig.failover.killed_node import KilledNode, open_transactions
from rig.pipeline.kinds import java_worker, python_worker
from rig.pipeline.ordeal import NODE_SETTINGS, Plan, endure
from rig.pipeline.stream import SINK, SOURCE

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplicatedCluster]:
    software: Software = PenstockSoftware()
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        software = KafkaSoftware(request.getfixturevalue("kafka_jars"))
    settings = {**BRISK_SESSIONS, **NODE_SETTINGS}
    with ReplicatedCluster(software, tmp_path, settings=settings) as made:
        made.start()
        yield made


def test_each_record_comes_out_once_though_application_and_nodes_are_killed(
    cluster: ReplicatedCluster, tmp_path: Path
) -> None:
    command = python_worker("confluent-kafka")
    plan = Plan(
        records=3_500, worker_kills=3, node_kills=5, stalls=1, seed=1, commands=[command] * 2
    )
    assert_exactly_once(cluster, plan, tmp_path)


def test_the_java_client_is_exactly_once_though_it_and_nodes_are_killed(
    cluster: ReplicatedCluster, tmp_path: Path, kafka_jars: Path
) -> None:
    command = java_worker(jars=kafka_jars, folder=tmp_path)
    plan = Plan(records=1_000, worker_kills=1, node_kills=3, seed=2, commands=[command])
    assert_exactly_once(cluster, plan, tmp_path)


def assert_exactly_once(cluster: ReplicatedCluster, plan: Plan, folder: Path) -> None:
    node = KilledNode(cluster, topics=(SOURCE, SINK), seed=plan.seed)
    outcome = endure(node, plan, folder=folder)
    assert outcome.faults == {}, outcome
    assert outcome.judgement.read == plan.records
    until("no transaction is open", lambda: not open_transactions(cluster))

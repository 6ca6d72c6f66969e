"""An application that reads, transforms and writes, killed at work: what goes in comes out once.

`bench/soak.py exactly-once` does it for longer.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.broker import KillableBroker
from rig.pipeline.kinds import java_worker, python_worker
from rig.pipeline.ordeal import NODE_SETTINGS, Plan, endure
from rig.serve import ServedNode

# Each tenth transaction of a life is aborted, of 50 records at most: every plan has so many records
# that some life has a tenth, however the kills fall.


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KillableBroker]:
    served: KillableBroker
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        jars = request.getfixturevalue("kafka_jars")
        served = ApacheKafka(jars=jars, folder=tmp_path, settings=NODE_SETTINGS)
    else:
        served = ServedNode(data=tmp_path / "data", settings=NODE_SETTINGS)
    served.start()
    yield served
    if served.running:
        served.kill()


def test_each_record_comes_out_once_though_application_and_node_are_killed(
    node: KillableBroker, tmp_path: Path
) -> None:
    command = python_worker("confluent-kafka")
    plan = Plan(
        records=3_500, worker_kills=4, node_kills=2, stalls=1, seed=1, commands=[command] * 2
    )
    assert_exactly_once(node, plan, tmp_path)


def test_kafka_python_is_exactly_once_though_it_and_the_node_are_killed(
    node: KillableBroker, tmp_path: Path
) -> None:
    command = python_worker("kafka-python")
    plan = Plan(records=2_000, worker_kills=2, node_kills=1, seed=1, commands=[command])
    assert_exactly_once(node, plan, tmp_path)


def test_the_java_client_is_exactly_once_though_it_and_the_node_are_killed(
    node: KillableBroker, tmp_path: Path, kafka_jars: Path
) -> None:
    command = java_worker(jars=kafka_jars, folder=tmp_path)
    plan = Plan(records=1_000, worker_kills=1, node_kills=1, seed=1, commands=[command])
    assert_exactly_once(node, plan, tmp_path)


def assert_exactly_once(node: KillableBroker, plan: Plan, folder: Path) -> None:
    outcome = endure(node, plan, folder=folder)
    assert outcome.faults == {}, outcome
    assert outcome.judgement.read == plan.records
    assert outcome.hidden, "no transaction was aborted that had written anything"
    if isinstance(node, ServedNode):
        assert node.stop() == 0

"""Apache Kafka's `kafka-reassign-partitions`: generate, execute, verify, list, cancel, throttle.

With PENSTOCK_INTEROP_PEER=1 the cluster is one of Apache Kafka, as in `conftest.py`.
"""

import itertools
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from rig.apache_kafka.agent import KafkaAgent, ToolRun
from rig.cluster_questions import is_whole, until
from rig.failover.cluster import (
    BRISK_SESSIONS,
    KafkaSoftware,
    PenstockSoftware,
    ReplicatedCluster,
    Software,
)
from rig.failover.questions import high_watermarks, is_in_sync, partition_states
from rig.reassigning import create_on

NAMES = itertools.count(1)
SLOW = "2000"  # bytes a second: a reassignment of what a test writes takes minutes
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedCluster]:
    software: Software = PenstockSoftware()
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        software = KafkaSoftware(request.getfixturevalue("kafka_jars"))
    folder = tmp_path_factory.mktemp("reassigned")
    with ReplicatedCluster(software, folder, settings=BRISK_SESSIONS) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


class Reassigning:
    """A topic, and the tool that moves its partitions."""

    def __init__(self, agent: KafkaAgent, cluster: ReplicatedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.topic = f"moved-{next(NAMES)}"
        self._agent = agent
        self._folder = folder

    def create(self, *assignments: list[int]) -> None:
        settings = {"min.insync.replicas": "1", "segment.bytes": str(2**20)}
        create_on(self.cluster.addresses[1], self.topic, assignments, settings)
        until("the topic is in sync", lambda: is_in_sync(self.cluster, self.topic))

    def write(self, count: int, *, partition: int = 0) -> None:
        """Batches of about 10,000 bytes each."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 0})
        for _ in range(count):
            producer.produce(self.topic, os.urandom(10_000), partition=partition)
            assert producer.flush(WAIT_SECONDS) == 0

    def file(self, **targets: list[int]) -> str:
        partitions = [
            {"topic": self.topic, "partition": int(index[1:]), "replicas": replicas}
            for index, replicas in targets.items()
        ]
        path = self._folder / f"{self.topic}-{next(NAMES)}.json"
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(path)

    def run(self, *arguments: str) -> ToolRun:
        at = ("--bootstrap-server", self.cluster.addresses[2])
        return self._agent.run_tool("kafka-reassign-partitions", *at, *arguments)

    def done(self, *arguments: str) -> str:
        run = self.run(*arguments)
        assert run.status == 0, run.output
        return run.output

    def with_file(self, path: str, *arguments: str) -> str:
        return self.done("--reassignment-json-file", path, *arguments)

    def is_complete(self, path: str) -> bool:
        return "still in progress" not in self.with_file(path, "--verify")

    def replicas(self, partition: int = 0) -> frozenset[int]:
        return partition_states(self.cluster.addresses[1], self.topic)[partition].replicas


@pytest.fixture
def moved(kafka_agent: KafkaAgent, cluster: ReplicatedCluster, tmp_path: Path) -> Reassigning:
    return Reassigning(kafka_agent, cluster, tmp_path)


def test_partitions_are_moved_and_verified(moved: Reassigning) -> None:
    topic = moved.topic
    moved.create([1, 2], [2, 3])
    moved.write(20)
    path = moved.file(p0=[3, 2], p1=[1])
    told = moved.with_file(path, "--execute")
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in told
    until("it is complete", lambda: moved.is_complete(path))
    told = moved.with_file(path, "--verify")
    for index in (0, 1):
        assert f"Reassignment of partition {topic}-{index} is completed." in told
    assert moved.replicas(0) == {2, 3}
    assert moved.replicas(1) == {1}
    until("the replicas are in sync", lambda: is_in_sync(moved.cluster, topic))
    assert high_watermarks(moved.cluster, topic)[0] == 20
    assert "No partition reassignments found." in moved.done("--list")


def test_a_plan_that_the_tool_generates_is_done_and_undone(
    moved: Reassigning, tmp_path: Path
) -> None:
    topic = moved.topic
    moved.create([1, 2], [2, 1], [1, 2])
    moved.write(5)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    told = moved.done(
        "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3"
    )
    current, proposed = (json.loads(line) for line in told.splitlines() if line.startswith("{"))
    assert replicas_of(current) == [{1, 2}] * 3
    assert replicas_of(proposed) == [{2, 3}] * 3
    led = [one["replicas"][0] for one in proposed["partitions"]]
    assert abs(led.count(2) - led.count(3)) == 1, "leaders are spread"
    for number, plan in enumerate((proposed, current)):
        path = tmp_path / f"plan-{number}.json"
        path.write_text(json.dumps(plan))
        moved.with_file(str(path), "--execute")
        until("it is complete", partial(moved.is_complete, str(path)))
        assert [moved.replicas(index) for index in range(3)] == replicas_of(plan)
    assert high_watermarks(moved.cluster, topic)[0] == 5


def replicas_of(plan: dict[str, Any]) -> list[set[int]]:
    listed = sorted(plan["partitions"], key=lambda one: int(one["partition"]))
    return [set(one["replicas"]) for one in listed]


def test_a_throttled_reassignment_is_listed_cancelled_and_made_again(moved: Reassigning) -> None:
    topic = moved.topic
    moved.create([1])
    moved.write(100)
    path = moved.file(p0=[2, 3])
    told = moved.with_file(path, "--execute", "--throttle", SLOW)
    assert f"The inter-broker throttle limit was set to {SLOW} B/s" in told
    listed = moved.done("--list")
    assert f"{topic}-0: replicas: 2,3,1. adding: 2,3. removing: 1." in listed
    assert "still in progress" in moved.with_file(path, "--verify")
    assert moved.replicas() == {1, 2, 3}

    told = moved.with_file(path, "--cancel")
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in told
    assert "Clearing broker-level throttles on brokers 1,2,3" in told
    assert moved.replicas() == {1}
    assert "No partition reassignments found." in moved.done("--list")
    assert "None of the specified partition reassignments are active." in moved.with_file(
        path, "--cancel"
    )

    moved.with_file(path, "--execute", "--throttle", SLOW)
    # Without the throttle it is complete soon.
    moved.with_file(path, "--execute", "--additional", "--throttle", "100000000")
    until("it is complete", lambda: moved.is_complete(path))
    assert moved.replicas() == {2, 3}
    assert high_watermarks(moved.cluster, topic)[0] == 100


def test_what_cannot_be_is_refused(moved: Reassigning) -> None:
    moved.create([1, 2])
    run = moved.run("--reassignment-json-file", moved.file(p0=[1, 9]), "--execute")
    assert run.status != 0
    assert "9" in run.output
    path = moved.file(p0=[1, 2, 3])
    run = moved.run(
        "--reassignment-json-file", path, "--execute", "--disallow-replication-factor-change"
    )
    assert run.status != 0
    assert "The replication factor is changed from 2 to 3" in run.output
    assert moved.replicas() == {1, 2}

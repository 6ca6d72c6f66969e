"""Apache Kafka's `kafka-reassign-partitions` with `log_dirs`, and `kafka-log-dirs`, which shows it.

With PENSTOCK_INTEROP_PEER=1 the cluster is one of Apache Kafka, as in `conftest.py`.
"""

import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rig.apache_kafka.agent import KafkaAgent
from rig.cluster_questions import is_whole, until
from rig.failover.cluster import (
    BRISK_SESSIONS,
    KafkaSoftware,
    PenstockSoftware,
    ReplicatedCluster,
    Software,
)
from rig.failover.questions import high_watermarks, is_in_sync
from rig.reassigning import create_on

NAMES = itertools.count(1)
SLOW = "2000"  # bytes a second: a move of what a test writes takes minutes
WAIT_SECONDS = 60
Place = tuple[int, Path, bool]  # broker, directory, whether it is a future log


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedCluster]:
    software: Software = PenstockSoftware()
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        software = KafkaSoftware(request.getfixturevalue("kafka_jars"))
    folder = tmp_path_factory.mktemp("moved")
    with ReplicatedCluster(software, folder, settings=BRISK_SESSIONS, disks=2) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


class Moving:
    """A topic of one partition on broker 1, and the tools that move it."""

    def __init__(self, agent: KafkaAgent, cluster: ReplicatedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.topic = f"moved-{next(NAMES)}"
        self._agent = agent
        self._folder = folder
        create_on(cluster.addresses[1], self.topic, [[1]], {"min.insync.replicas": "1"})
        until("the topic is in sync", lambda: is_in_sync(cluster, self.topic))

    def write(self, count: int) -> None:
        """Batches of about 10,000 bytes each."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 0})
        for _ in range(count):
            producer.produce(self.topic, os.urandom(10_000), partition=0)
            assert producer.flush(WAIT_SECONDS) == 0

    def other_disk(self, number: int, disk: Path) -> Path:
        [other] = [one for one in self.cluster.disks(number) if one != disk]
        return other

    def file(self, replicas: list[int], log_dirs: list[str]) -> str:
        partition = {
            "topic": self.topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs,
        }  # fmt: skip
        path = self._folder / f"{self.topic}-{next(NAMES)}.json"
        path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return str(path)

    def run(self, path: str, *arguments: str) -> str:
        return self._done("kafka-reassign-partitions", "--reassignment-json-file", path, *arguments)

    def places(self) -> set[Place]:
        """Where the partition is, as `kafka-log-dirs` shows it."""
        shown = self._done("kafka-log-dirs", "--describe", "--topic-list", self.topic)
        return {
            (broker["broker"], Path(directory["logDir"]), partition["isFuture"])
            for broker in json.loads(shown.strip().splitlines()[-1])["brokers"]
            for directory in broker["logDirs"]
            for partition in directory["partitions"]
        }

    def _done(self, tool: str, *arguments: str) -> str:
        at = ("--bootstrap-server", self.cluster.addresses[1])
        run = self._agent.run_tool(tool, *at, *arguments)
        assert run.status == 0, run.output
        return run.output


@pytest.fixture
def moving(kafka_agent: KafkaAgent, cluster: ReplicatedCluster, tmp_path: Path) -> Moving:
    return Moving(kafka_agent, cluster, tmp_path)


def test_a_replica_is_moved_to_another_directory_and_back(moving: Moving) -> None:
    topic = moving.topic
    moving.write(30)
    [(_, disk, _)] = moving.places()
    other = moving.other_disk(1, disk)
    path = moving.file([1], [str(other)])
    told = moving.run(path, "--execute", "--replica-alter-log-dirs-throttle", SLOW)
    assert f"The replica-alter-dir throttle limit was set to {SLOW} B/s" in told
    assert f"started moving log directory to {other} for replica {topic}-0 with broker 1" in told
    assert moving.places() == {(1, disk, False), (1, other, True)}
    told = moving.run(path, "--verify")
    assert f"Reassignment of replica {topic}-0-1 is still in progress." in told
    moving.write(2)

    back = moving.file([1], [str(disk)])
    moving.run(back, "--execute", "--additional")
    assert moving.places() == {(1, disk, False)}

    moving.run(path, "--execute", "--additional", "--replica-alter-log-dirs-throttle", "100000000")
    until("it is there", lambda: moving.places() == {(1, other, False)})
    told = moving.run(path, "--verify")
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in told
    moving.write(1)
    assert high_watermarks(moving.cluster, topic)[0] == 33


def test_a_new_replica_is_made_in_the_directory_that_is_named(moving: Moving) -> None:
    moving.write(3)
    for disk in moving.cluster.disks(2):
        back_to_one = moving.file([1], ["any"])
        moving.run(back_to_one, "--execute", "--additional")
        until("it is on broker 1", lambda: {one[0] for one in moving.places()} == {1})
        path = moving.file([2], [str(disk)])
        moving.run(path, "--execute", "--additional")
        until("it is there", lambda disk=disk: moving.places() == {(2, disk, False)})  # type: ignore[misc]
    assert high_watermarks(moving.cluster, moving.topic)[0] == 3


def test_a_moved_replica_survives_a_kill(moving: Moving) -> None:
    moving.write(10)
    [(_, disk, _)] = moving.places()
    other = moving.other_disk(1, disk)
    path = moving.file([1], [str(other)])
    moving.run(path, "--execute", "--replica-alter-log-dirs-throttle", SLOW)
    moving.cluster.nodes[1].end(signal.SIGKILL)
    moving.cluster.start(1)
    until("the cluster is whole", lambda: is_whole(moving.cluster))
    moving.run(path, "--execute", "--additional", "--replica-alter-log-dirs-throttle", "100000000")
    until("it is there", lambda: moving.places() == {(1, other, False)})
    moving.run(path, "--verify")
    assert high_watermarks(moving.cluster, moving.topic)[0] == 10

"""`penstock partitions reassign` with `log_dirs`, on two nodes with two log directories each, of
Penstock and of Apache Kafka.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.testing import Broker
from rig.cluster_questions import is_whole, until
from rig.command import Outcome
from rig.failover.cluster import KafkaSoftware, PenstockSoftware, ReplicatedCluster, Software
from rig.failover.questions import high_watermarks, is_in_sync
from rig.reassigning import create_on

Run = Callable[..., Outcome]
Place = tuple[int, Path, bool]  # broker, directory, whether it is a copy that is not whole yet
SLOW = 2_000  # bytes a second: a move of what a test writes takes minutes
WAIT_SECONDS = 60
NAMES = itertools.count(1)


@pytest.fixture(scope="module", params=["penstock", "kafka"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedCluster]:
    software: Software = PenstockSoftware()
    if request.param == "kafka":
        software = KafkaSoftware(request.getfixturevalue("kafka_jars"))
    folder = tmp_path_factory.mktemp("directories")
    with ReplicatedCluster(software, folder, nodes=2, disks=2) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


def write(bootstrap: str, topic: str, count: int) -> None:
    """Batches of about 10,000 bytes each."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, os.urandom(10_000), partition=0)
        assert producer.flush(WAIT_SECONDS) == 0


class Moving:
    """A topic of one partition on broker 1, and the command that moves it."""

    def __init__(self, run: Run, cluster: ReplicatedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.topic = f"moved-{next(NAMES)}"
        self._run = run
        self._folder = folder
        create_on(cluster.addresses[1], self.topic, [[1]], {"min.insync.replicas": "1"})
        until("the topic is in sync", lambda: is_in_sync(cluster, self.topic))
        # A node of Apache Kafka answers Metadata by a new image before it makes the logs in it.
        until("its log is made", self.places)

    def write(self, count: int) -> None:
        write(self.cluster.bootstrap, self.topic, count)

    def file(self, replicas: list[int], log_dirs: object) -> Path:
        partition = {
            "topic": self.topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs,
        }  # fmt: skip
        path = self._folder / f"{self.topic}-{next(NAMES)}.json"
        path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return path

    def run(self, path: Path, *options: str) -> Outcome:
        command = f"partitions reassign {path} {' '.join(options)}"
        return self._run(command, bootstrap=self.cluster.bootstrap)

    def told(self, path: Path, *options: str) -> Any:
        return self.run(path, *options, "--json").json()

    def places(self) -> set[Place]:
        command = f"cluster log-dirs --topic {self.topic} --json"
        return {
            (one["broker"], Path(directory["path"]), replica["future"])
            for one in self._run(command, bootstrap=self.cluster.bootstrap).json()
            for directory in one["directories"]
            for replica in directory["replicas"]
        }

    def disks(self) -> tuple[Path, Path]:
        """Where it is on broker 1, and the other directory."""
        [(_, disk, _)] = self.places()
        [other] = [one for one in self.cluster.disks(1) if one != disk]
        return disk, other

    def rates(self) -> list[str]:
        told = self._run("configs describe --broker 1 --json").json()
        return [one["value"] for one in told if one["name"].startswith("replica.alter.log.dirs")]


@pytest.fixture
def moving(run: Run, cluster: ReplicatedCluster, tmp_path: Path) -> Moving:
    return Moving(run, cluster, tmp_path)


def test_a_replica_moves_to_another_directory_throttled_cancelled_and_done(moving: Moving) -> None:
    moving.write(30)
    disk, other = moving.disks()
    path = moving.file([1], [str(other)])
    planned = moving.told(path, "--dry-run")
    assert (planned["begun"], planned["moves"]) == (False, [])
    [one] = planned["directories"]
    assert (one["broker"], one["from"], one["to"]) == (1, str(disk), str(other))
    assert one["bytes"] > 300_000

    begun = moving.run(path, "--directory-throttle", str(SLOW))
    assert (begun.status, begun.err) == (0, "moving 1 replica to a directory\n")
    assert moving.places() == {(1, disk, False), (1, other, True)}
    assert moving.rates() == [str(SLOW)]
    verified = moving.told(path, "--verify")
    assert [one["state"] for one in verified["partitions"]] == ["complete"]
    assert [one["state"] for one in verified["directories"]] == ["moving"]
    assert verified["throttles_removed"] == []

    cancelled = moving.told(path, "--cancel")
    assert cancelled["cancelled_directories"] == [
        {"topic": moving.topic, "partition": 0, "broker": 1}
    ]
    assert cancelled["throttles_removed"] == ["broker 1"]
    until("the broker has no throttle", lambda: moving.rates() == [])
    assert moving.places() == {(1, disk, False)}
    assert moving.run(path, "--cancel").err == (
        "penstock: nothing to cancel: no such partition moves\n"
    )

    done = moving.told(path, "--directory-throttle", "100000000", "--watch")
    assert [one["state"] for one in done["directories"]] == ["complete"]
    assert moving.places() == {(1, other, False)}
    until("the broker has no throttle", lambda: moving.rates() == [])
    assert moving.run(path).lines == ["nothing to move: all partitions are there"]
    moving.write(1)
    assert high_watermarks(moving.cluster, moving.topic)[0] == 31


def test_a_new_replica_is_made_in_the_directory_that_is_named(moving: Moving) -> None:
    moving.write(3)
    for disk in moving.cluster.disks(2):
        back = moving.run(moving.file([1], ["any"]), "--watch")
        assert back.status == 0
        until("it is on broker 1 alone", lambda: {one[0] for one in moving.places()} == {1})
        told = moving.told(moving.file([1, 2], ["any", str(disk)]), "--watch")
        assert [one["state"] for one in told["partitions"]] == ["complete"]
        [directory] = told["directories"]
        assert (directory["broker"], directory["state"]) == (2, "complete")
        assert (2, disk, False) in moving.places()
    assert high_watermarks(moving.cluster, moving.topic)[0] == 3


@pytest.mark.penstock(nodes=3)
def test_moves_to_a_directory_of_a_broker_that_died_are_cancelled(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    create_on(penstock.nodes[1], "halfway", [[1]], {"min.insync.replicas": "1"})
    write(penstock.nodes[1], "halfway", 30)
    [stored] = run("cluster log-dirs --broker 3 --json", bootstrap=penstock.nodes[1]).json()
    path = tmp_path / "halfway.json"
    partition = {
        "topic": "halfway", "partition": 0, "replicas": [1, 3],
        "log_dirs": ["any", stored["directories"][0]["path"]],
    }  # fmt: skip
    path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    begun = run(f"partitions reassign {path} --throttle {SLOW}")
    assert begun.status == 0, begun.err
    penstock.kill(3)
    cancelled = run(f"partitions reassign {path} --cancel --json").json()
    assert cancelled["cancelled"] == [{"topic": "halfway", "partition": 0}]
    assert cancelled["cancelled_directories"] == []
    assert "nothing to cancel" in run(f"partitions reassign {path} --cancel").err


@pytest.mark.parametrize(
    ("log_dirs", "said"),
    [
        (["/nowhere"], "broker 1: there is no log directory /nowhere, only "),
        (["data"], 'log_dirs: "data" is not an absolute path, nor "any"'),
        ([7], 'log_dirs: 7 is not an absolute path, nor "any"'),
        (["any", "any"], "log_dirs is not a list with a path for each replica"),
        ("any", "log_dirs is not a list with a path for each replica"),
    ],
)
def test_a_directory_that_cannot_be_is_one_line_and_changes_nothing(
    moving: Moving, log_dirs: object, said: str
) -> None:
    before = moving.places()
    refused = moving.run(moving.file([1], log_dirs), "--directory-throttle", "1000")
    assert (refused.status, refused.out) == (1, b"")
    assert said in refused.err
    assert refused.err.count("\n") == 1
    assert moving.places() == before
    assert moving.rates() == []

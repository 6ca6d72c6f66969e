"""Clusters of three under measurement, each node a process of its own with fresh data.

Partitions have three replicas, and min.insync.replicas is 2. Both get the same settings where the
bench needs any; else each runs with its own defaults, as in `brokers.py`.
"""

import shutil
import signal
import sys
import time
from pathlib import Path

from asking import Asking, Refused, await_true
from brokers import KAFKA_JVM, KAFKA_SETTINGS, PLAINTEXT, SHARED_SETTINGS, TESTS

sys.path.append(str(TESTS))

from rig.cluster_questions import is_whole
from rig.failover.cluster import (
    SETTINGS,
    KafkaSoftware,
    PenstockSoftware,
    ReplicatedCluster,
    Software,
)

NODES = 3
# What `ReplicatedCluster` gives a node already.
NOT_SHARED = ("node.id", *SETTINGS)
# Tests want no rounds of retention; what is measured has them as by default.
DEFAULTS = {"log.initial.task.delay.ms": "30000", "log.retention.check.interval.ms": "300000"}


class Cluster:
    """A cluster in the place of a broker: it is asked through its first node."""

    replicas = 3

    def __init__(self, software: Software, folder: Path, *, settings: dict[str, str]) -> None:
        self.name = software.name
        self._folder = folder
        self.nodes = ReplicatedCluster(software, folder, nodes=NODES, settings=settings)
        host, port = self.nodes.addresses[1].rsplit(":", 1)
        self.address = (host, int(port))

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes.nodes.values()]

    @property
    def folders(self) -> list[Path]:
        return [self.nodes.data(number) for number in self.nodes.nodes]

    def options_at(self, listener: str) -> dict[str, object]:
        assert listener == PLAINTEXT
        return {"address": self.nodes.addresses[1]}

    def start(self) -> float:
        """Seconds from the start of the processes to the first record that all have."""
        started = time.perf_counter()
        self.nodes.start()
        await_true("a whole cluster", lambda: is_whole(self.nodes))
        with Asking(self.address) as asking:
            topic_id = asking.create_topic("first", 1, replicas=self.replicas)
            await_true("replicas in sync", lambda: asking.leaders("first") is not None)
            leaders = asking.leaders("first")
        if leaders is None:
            raise Refused("replicas of a new topic did not stay in sync")
        host, port = leaders[0].rsplit(":", 1)
        with Asking((host, int(port))) as asking:
            asking.produce_one(topic_id)
            taken = time.perf_counter() - started
            asking.delete_topic("first")
        return taken

    def stop(self) -> None:
        """Killed: the last nodes of a cluster would wait for a controller, in vain."""
        for node in self.nodes.nodes.values():
            if node.running:
                node.end(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


def penstock_cluster(folder: Path, *, settings: dict[str, str]) -> Cluster:
    return Cluster(PenstockSoftware(), folder, settings={**DEFAULTS, **SHARED_SETTINGS, **settings})


def kafka_cluster(folder: Path, *, jars: Path, settings: dict[str, str] | None = None) -> Cluster:
    distributed = {name: value for name, value in KAFKA_SETTINGS.items() if name not in NOT_SHARED}
    software = KafkaSoftware(jars, options=KAFKA_JVM)
    whole = {**DEFAULTS, **distributed, **SHARED_SETTINGS, **(settings or {})}
    return Cluster(software, folder, settings=whole)

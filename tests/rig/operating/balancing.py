"""Partitions of which some are ten times as busy, all on one node, and a balance that evens it out.

How busy nodes are is judged by the bytes that their logs grow by, and not by what the command says.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import Producer

from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.failover.questions import is_in_sync
from rig.operating.cluster import OperatedCluster
from rig.reassigning import create_on

HOT = 10  # records of a busy partition for each of a quiet one
ROUND_SECONDS = 0.1
FLUSH_SECONDS_MAX = 60
TOPIC = "skewed"

# What one round writes to a partition, by its index: keys, and bytes of values.
Records = Callable[[int], list[tuple[str, int]]]


def ten_to_one(index: int) -> list[tuple[str, int]]:
    """Ten times as many records to every third partition."""
    many = HOT if index % 3 == 0 else 1
    return [("loud" if number else f"quiet-{index}", 1_000) for number in range(many)]


def equal_bytes(index: int) -> list[tuple[str, int]]:
    """About as many bytes to each partition; every third one gets them in forty batches, each with
    a header of its own.
    """
    return [(f"key-{index}", 500)] * 40 if index % 3 == 0 else [(f"key-{index}", 22_000)]


class SkewedLoad:
    """Writes to all partitions of a topic, each record in a request of its own. As a context it
    writes all the time.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int, records: Records = ten_to_one
    ) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "1",
                "batch.num.messages": 1,
                "log_level": QUIET,
            }
        )
        self._topic = topic
        self._partitions = partitions
        self._records = records
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def write_round(self) -> None:
        for index in range(self._partitions):
            for key, size_bytes in self._records(index):
                self._producer.produce(self._topic, bytes(size_bytes), key, partition=index)
        self._producer.flush(FLUSH_SECONDS_MAX)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._over.wait(ROUND_SECONDS):
            self.write_round()


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceReport:
    grown_before: dict[int, int]  # bytes that the logs of each node grew by, in the same rounds
    grown_after: dict[int, int]
    plan: dict[str, Any]  # what `penstock partitions balance --json` told

    @property
    def copied_bytes(self) -> int:
        return int(self.plan["bytes_to_copy"])

    @property
    def least_bytes(self) -> float:
        """What no plan can do without: the load above the limit, at the best load for a byte."""
        limit = self.plan["limit"] * self.plan["mean"]
        excess = sum(max(0, one["load"] - limit) for one in self.plan["brokers"])
        prices = [one["bytes"] / one["load"] for one in self.plan["changes"] if one["bytes"]]
        return float(excess * min(prices, default=0))

    @property
    def spare_changes(self) -> int:
        """Copies without which no node would be above the limit all the same: none are wanted."""
        limit = self.plan["limit"] * self.plan["mean"]
        loads = {one["id"]: one["load_then"] for one in self.plan["brokers"]}
        return sum(
            loads[one["leader"]] + one["load"] <= limit
            for one in self.plan["changes"]
            if one["bytes"] and one["leader"] != one["leader_then"]
        )


def of_mean(grown: dict[int, int]) -> float:
    """The busiest node's share of the mean."""
    return max(grown.values()) / (sum(grown.values()) / len(grown))


def balance_skewed(
    cluster: OperatedCluster, *, partitions: int, rounds: int, seconds: int
) -> BalanceReport:
    """On three nodes that run, with one replica of each partition."""
    nodes = sorted(cluster.nodes)
    assignments = [[nodes[index % len(nodes)]] for index in range(partitions)]
    create_on(cluster.addresses[nodes[0]], TOPIC, assignments, {"min.insync.replicas": "1"})
    until(f"{TOPIC} is in sync", lambda: is_in_sync(cluster, TOPIC))
    load = SkewedLoad(cluster.bootstrap, TOPIC, partitions=partitions)
    before = _growth(cluster, load, rounds)
    with load:
        plan = cluster.told("partitions", "balance", "--for", f"{seconds}s", "--yes")
    until(f"{TOPIC} is in sync", lambda: is_in_sync(cluster, TOPIC))
    return BalanceReport(grown_before=before, grown_after=_growth(cluster, load, rounds), plan=plan)


def _growth(cluster: OperatedCluster, load: SkewedLoad, rounds: int) -> dict[int, int]:
    load.write_round()  # leaders are known
    before = {node: _stored(cluster, node) for node in cluster.nodes}
    for _ in range(rounds):
        load.write_round()
    return {node: _stored(cluster, node) - before[node] for node in cluster.nodes}


def _stored(cluster: OperatedCluster, node: int) -> int:
    """Without replicas that were moved away, whose files go later."""
    return sum(
        file.stat().st_size
        for directory in cluster.data(node).iterdir()
        if re.fullmatch(rf"{TOPIC}-\d+", directory.name)
        for file in directory.glob("*.log")
    )

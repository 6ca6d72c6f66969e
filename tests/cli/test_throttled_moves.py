"""A throttled move takes as long as its throttle says, in both directions of a broker."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from penstock.testing import Broker, running_broker
from rig.command import Outcome
from rig.operating.copy_rates import CopyRates
from rig.reassigning import create_on

# So low that every machine copies as fast as that, and so much to copy that the second that a
# throttle may save up is a small part of it.
RATE_BYTES = 2_000_000  # a second
COPIED_BYTES = 24_000_000  # to or from the busiest broker
RECORD_BYTES = 10_000
Replicas = Sequence[Sequence[int]]  # of each partition


class Nodes(NamedTuple):
    """As `CopyRates` knows them."""

    addresses: dict[int, str]
    folder: Path

    def data(self, number: int) -> Path:
        return self.folder / f"node-{number}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with running_broker(nodes=3) as broker:
        yield broker


def write(cluster: Broker, topic: str, partition: int, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 5 * RECORD_BYTES})
    for _ in range(size_bytes // RECORD_BYTES):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=partition)
    assert producer.flush(120) == 0


@pytest.mark.parametrize(
    ("topic", "before", "after"),
    [
        pytest.param("sent", [[1]], [[1, 2, 3]], id="one leader, two followers"),
        pytest.param("fetched", [[1], [2]], [[3], [3]], id="two leaders, one follower"),
    ],
)
def test_the_busiest_broker_is_within_a_tenth_of_the_throttle(
    run: Callable[..., Outcome],
    cluster: Broker,
    tmp_path: Path,
    topic: str,
    before: Replicas,
    after: Replicas,
) -> None:
    create_on(cluster.nodes[1], topic, before, {"min.insync.replicas": "1"})
    added = {
        (topic, index): sorted({*there} - {*here})
        for index, (here, there) in enumerate(zip(before, after, strict=True))
    }
    copies = sum(map(len, added.values()))
    for index in range(len(before)):
        write(cluster, topic, index, COPIED_BYTES // copies)
    moves = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for index, replicas in enumerate(after)
    ]
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    nodes = Nodes(addresses=dict(cluster.nodes), folder=cluster.data)
    with CopyRates(nodes, added, until_topic=topic) as rates:
        command = f"partitions reassign {file} --throttle {RATE_BYTES} --watch --json"
        told = run(command, bootstrap=cluster.bootstrap).json()
    assert {one["state"] for one in told["partitions"]} == {"complete"}
    assert 0.5 * RATE_BYTES <= rates.busiest_per_second() <= 1.1 * RATE_BYTES

"""A partition that Apache Kafka wrote opens and serves here, and one written here serves there."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Found, Message
from rig.serve import ServedNode

TOPIC = "moved"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {"segment.bytes": str(1024 * 1024)}

Stopped = ServedNode | ApacheKafka


@pytest.fixture
def penstock_node(tmp_path: Path) -> Iterator[ServedNode]:
    node = ServedNode(data=tmp_path / "penstock")
    node.start()
    yield node
    if node.running:
        node.stop()


@pytest.fixture
def kafka_node(kafka_jars: Path, tmp_path: Path) -> Iterator[ApacheKafka]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    node = ApacheKafka(jars=kafka_jars, folder=folder, settings={})
    node.start()
    yield node
    if node.running:
        node.stop()


def test_a_partition_of_apache_kafka_serves_here(
    kafka_node: ApacheKafka, penstock_node: ServedNode
) -> None:
    written = fill(kafka_node.bootstrap)
    create(penstock_node.bootstrap)
    move(kafka_node, penstock_node)
    penstock_node.start()
    assert everything(penstock_node.bootstrap) == written


def test_a_partition_written_here_serves_in_apache_kafka(
    kafka_node: ApacheKafka, penstock_node: ServedNode
) -> None:
    written = fill(penstock_node.bootstrap)
    create(kafka_node.bootstrap)
    move(penstock_node, kafka_node)
    kafka_node.start()
    assert everything(kafka_node.bootstrap) == written


def create(bootstrap: str) -> None:
    client = ConfluentClient(bootstrap)
    client.create_topic(TOPIC, settings=SETTINGS)
    client.close()


def fill(bootstrap: str) -> list[Found]:
    """Several segments, every codec, headers and nulls; returns what a client then reads."""
    create(bootstrap)
    client = ConfluentClient(bootstrap)
    dice = Random(7)
    for codec in CODECS:
        messages = [
            Message(
                key=None if number % 4 == 0 else b"k%d" % number,
                value=None if number % 5 == 1 else dice.randbytes(9_000) + bytes(3_000),
                headers=(("number", b"%d" % number),),
                partition=0,
                timestamp_ms=1_700_000_000_000 + number,
            )
            for number in range(40)
        ]
        client.produce(TOPIC, messages, codec=codec)
    client.close()
    return everything(bootstrap)


def everything(bootstrap: str) -> list[Found]:
    client = ConfluentClient(bootstrap)
    try:
        assert client.offset_bounds(TOPIC, 0) == (0, 200)
        assert client.offset_at_time(TOPIC, 0, 1_700_000_000_020) == 20
        return client.read(TOPIC, 0, from_offset=0, count=200)
    finally:
        client.close()


def move(source: Stopped, target: Stopped) -> None:
    """Stops both and swaps the files in. The topic keeps the id that the target gave it."""
    for node in (source, target):
        node.stop()
    [old] = source.data.rglob(f"{TOPIC}-0")
    [new] = target.data.rglob(f"{TOPIC}-0")
    assert len(list(old.glob("*.log"))) > 1
    identity = (new / "partition.metadata").read_bytes()
    shutil.rmtree(new)
    shutil.copytree(old, new)
    (new / "partition.metadata").write_bytes(identity)

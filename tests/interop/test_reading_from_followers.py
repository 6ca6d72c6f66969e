"""Consumers read from a replica in their own rack (KIP-392): librdkafka, Java, our own client, and
single requests.

With PENSTOCK_INTEROP_PEER=1 the cluster is one of Apache Kafka, as in `conftest.py`.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.client.consume.consumer import Consumer as OurConsumer
from penstock.client.consume.consumer import ConsumerRules as OurRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster as OurCluster
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition as Place
from penstock.wire.api import ApiKey
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from penstock.world.clock import RealClock
from rig.apache_kafka.cluster import KafkaCluster
from rig.apache_kafka.java import compiled, java_command
from rig.cluster_questions import is_whole, until
from rig.dialogue import Dialogue
from rig.reassigning import create_on
from rig.served_cluster import ServedCluster
from rig.source_tree import ROOT
from rig.troubled_network import TroubledNetwork

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COUNT = 50
TOPIC = "near"
READER = ROOT / "tests" / "rig" / "java" / "RackReader.java"
READER_SECONDS_MAX = 300
LARGE = "x" * 2_000  # records of this size are most of what a reader gets

Cluster: TypeAlias = ServedCluster | KafkaCluster


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers, each in a rack of its own; the first one leads, and all have all records."""
    folder = tmp_path_factory.mktemp("racks")
    made: Cluster
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        jars = request.getfixturevalue("kafka_jars")
        made = KafkaCluster(jars=jars, folder=folder, settings={"replica.selector.class": SELECTOR})
    else:
        made = ServedCluster(folder, replica_selector_class=SELECTOR)
    with made:
        for number in made.nodes:
            with open(folder / f"node-{number}" / "server.properties", "a") as properties:
                properties.write(f"broker.rack=rack-{number}\n")
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        create_on(made.addresses[1], TOPIC, [[1, 2, 3]])
        write(made)
        for number in made.nodes:
            until("it is committed there", lambda number=number: ends(made, number) == COUNT)
        yield made


def write(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number), partition=0)
    assert producer.flush(60) == 0


def ends(cluster: Cluster, node: int) -> int:
    return fetch(cluster, node, offset=0).high_watermark


def fetch(
    cluster: Cluster, node: int, *, offset: int, rack: str = "", version: int = 12, epoch: int = -1
) -> PartitionData:
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1_000_000, current_leader_epoch=epoch
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=10_000_000,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
        rack_id=rack,
    )
    with closing(Dialogue(cluster.addresses[node], TOPIC)) as dialogue:
        [topic] = dialogue.exchange(request, version=version).responses
    [told] = topic.partitions
    assert isinstance(told, PartitionData)
    return told


def test_the_leader_names_the_follower_in_the_rack_of_the_consumer(cluster: Cluster) -> None:
    for node in (2, 3):
        told = fetch(cluster, 1, offset=7, rack=f"rack-{node}")
        assert (told.error_code, told.preferred_read_replica) == (0, node)
        assert told.high_watermark == COUNT
        assert not told.records, "nothing is read in vain"
    for rack in ("", "rack-1", "nowhere"):
        told = fetch(cluster, 1, offset=7, rack=rack)
        assert (told.error_code, told.preferred_read_replica) == (0, -1)
        assert told.records


def test_no_follower_is_named_that_lacks_the_offset(cluster: Cluster) -> None:
    told = fetch(cluster, 1, offset=COUNT + 1, rack="rack-2")
    assert told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert told.preferred_read_replica == -1


def test_a_follower_serves_what_is_committed(cluster: Cluster) -> None:
    told = fetch(cluster, 2, offset=0, rack="rack-2")
    assert (told.error_code, told.preferred_read_replica) == (0, -1)
    assert told.high_watermark == COUNT
    assert told.records
    assert told.records == fetch(cluster, 1, offset=0).records
    beyond = fetch(cluster, 2, offset=COUNT + 1, rack="rack-2")
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_refuses_clients_of_old_and_other_leader_epochs(cluster: Cluster) -> None:
    old = fetch(cluster, 2, offset=0, version=10)
    assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    later = fetch(cluster, 2, offset=0, epoch=1_000)
    assert later.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_librdkafka_reads_from_the_broker_in_its_rack(cluster: Cluster) -> None:
    asked: set[int] = set()

    def noted(text: str) -> None:
        told: dict[str, Any] = json.loads(text)
        partition = told["topics"].get(TOPIC, {}).get("partitions", {}).get("0")
        if partition is not None:
            asked.add(partition["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "client.rack": "rack-3",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "statistics.interval.ms": 50,
            "stats_cb": noted,
        }
    )
    with closing(consumer):
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[str] = []

        def is_read() -> bool:
            for message in consumer.consume(COUNT, timeout=0.1):
                assert message.error() is None, message.error()
                values.append((message.value() or b"").decode())
            return len(values) >= COUNT and 3 in asked

        until("all is read, from broker 3", is_read)
    assert values == [str(number) for number in range(COUNT)]


def test_our_consumer_reads_from_the_broker_in_its_rack(cluster: Cluster) -> None:
    network = TroubledNetwork()
    rules = OurRules(reset=Reset.EARLIEST, fetch=FetchRules(rack="rack-3", wait_ms_max=20))
    addresses = parse_addresses(cluster.bootstrap)

    async def work() -> list[bytes | None]:
        values: list[bytes | None] = []
        async with (
            asyncio.timeout(60),
            OurCluster(network, RealClock(), addresses) as ours,
            OurConsumer(ours, rules=rules) as consumer,
        ):
            await consumer.assign([Place(TOPIC, 0)])
            while len(values) < COUNT:
                values += [record.value for record in await consumer.poll(wait_ms=100)]
        return values

    assert asyncio.run(work()) == [b"%d" % number for number in range(COUNT)]
    asked = {str(stream.peer) for stream in network.streams if stream.sent[ApiKey.FETCH]}
    assert asked == {cluster.addresses[1], cluster.addresses[3]}


def test_our_consumer_reads_from_the_leader_while_it_cannot_reach_the_broker_in_its_rack(
    cluster: Cluster,
) -> None:
    network, far = TroubledNetwork(), cluster.addresses[3]
    network.unreachable.add(far)
    one_by_one = FetchRules(rack="rack-3", wait_ms_max=20, partition_bytes_max=1)
    rules = OurRules(reset=Reset.EARLIEST, fetch=one_by_one)
    retrying = replace(rules, replica_retry_ms=100)

    async def work() -> list[bytes | None]:
        values: list[bytes | None] = []
        async with (
            asyncio.timeout(60),
            OurCluster(network, RealClock(), parse_addresses(cluster.bootstrap)) as ours,
        ):
            async with OurConsumer(ours, rules=rules) as consumer:
                await consumer.assign([Place(TOPIC, 0)])
                while len(values) < COUNT:
                    values += [record.value for record in await consumer.poll(wait_ms=100)]
            assert network.refused == 1
            async with OurConsumer(ours, rules=retrying) as consumer:
                await consumer.assign([Place(TOPIC, 0)])
                while network.refused < 3:
                    await consumer.poll(wait_ms=20)
                network.unreachable.clear()
                while not any(
                    str(stream.peer) == far and stream.sent[ApiKey.FETCH]
                    for stream in network.streams
                ):
                    await consumer.poll(wait_ms=20)
        return values

    assert asyncio.run(work()) == [b"%d" % number for number in range(COUNT)]


def test_the_java_consumer_reads_from_the_broker_in_its_rack(
    cluster: Cluster, kafka_jars: Path, tmp_path: Path
) -> None:
    topic = "near-java"
    create_on(cluster.addresses[1], topic, [[1, 2, 3]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(COUNT):
        producer.produce(topic, LARGE, str(number), partition=0)
    assert producer.flush(60) == 0
    classes = compiled([READER], jars=kafka_jars, folder=tmp_path)
    command = java_command(kafka_jars, heap_mib=128, folder=tmp_path, classes=classes)
    for rack, near in (("rack-3", 3), ("nowhere", 1)):
        done = subprocess.run(
            [*command, "RackReader", cluster.bootstrap, topic, rack, str(COUNT)],
            capture_output=True,
            text=True,
            timeout=READER_SECONDS_MAX,
        )
        told = [line.split() for line in done.stdout.splitlines()]
        assert [words[1] for words in told if words[0] == "key"] == list(map(str, range(COUNT))), (
            done.stderr
        )
        sent_bytes = {int(words[1]): int(words[2]) for words in told if words[0] == "node"}
        assert sent_bytes[near] > COUNT * len(LARGE)
        others = [sent for node, sent in sent_bytes.items() if node != near]
        assert all(sent < COUNT * len(LARGE) / 2 for sent in others), sent_bytes

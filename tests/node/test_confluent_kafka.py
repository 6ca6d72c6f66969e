"""A node as confluent-kafka sees it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.running_node import RunningNode, running_node

WAIT_S_MAX = 120


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(tmp_path) as running:
        yield running


def produce(node: RunningNode, topic: str, values: list[bytes], **options: object) -> list[Message]:
    """Produces one record after the other into partition 0; what the broker said of each."""
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 1, **options})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(WAIT_S_MAX) == 0
    return delivered


def consume(node: RunningNode, topic: str, count: int, *, offset: int = 0) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    messages: list[Message] = []
    while len(messages) < count:
        got = consumer.consume(count - len(messages), WAIT_S_MAX)
        assert got, f"only {len(messages)} of {count} came"
        for message in got:
            assert message.error() is None, message.error()
        messages += got
    consumer.close()
    return messages


def create_topic(node: RunningNode, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, partitions)]).values()
    created.result(WAIT_S_MAX)


def test_what_is_produced_is_consumed_in_order(node: RunningNode) -> None:
    values = [b"%d" % number for number in range(5000)]
    delivered = produce(node, "orders", values)
    assert [message.offset() for message in delivered] == list(range(5000))
    consumed = consume(node, "orders", 5000)
    assert [message.value() for message in consumed] == values
    assert [message.offset() for message in consumed] == list(range(5000))


def test_records_survive_a_clean_stop_and_nothing_is_scanned_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_node(tmp_path) as node:
        produce(node, "orders", [b"before"])
    caplog.set_level("INFO")
    with running_node(tmp_path) as node:
        assert "recovery segments_scanned=0 clean=True" in caplog.text
        produce(node, "orders", [b"after"])
        assert [message.value() for message in consume(node, "orders", 2)] == [b"before", b"after"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_every_ack_is_taken(node: RunningNode, codec: str, acks: str) -> None:
    values = [b"compress me " * 50 + b"%d" % number for number in range(200)]
    idempotence = {"enable.idempotence": acks == "all"}
    create_topic(node, "orders")
    produce(node, "orders", values, **{"compression.type": codec, "acks": acks, **idempotence})
    assert [message.value() for message in consume(node, "orders", 200)] == values


def test_admin_sees_what_it_made(node: RunningNode) -> None:
    create_topic(node, "orders", partitions=6)
    metadata = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=WAIT_S_MAX)
    assert set(metadata.topics["orders"].partitions) == set(range(6))
    assert [str(broker.id) for broker in metadata.brokers.values()] == ["1"]

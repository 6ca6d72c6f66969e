"""Every client writes with every codec, and every byte comes back as it went."""

from collections.abc import Callable

import pytest

from rig.broker import Broker
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Found, KafkaClient, Message, Receipt
from rig.stored_batches import stored_batches

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TopicMaker = Callable[..., str]

# Null, empty and repetitive, so that a codec has something to do and a null is not an empty.
ORDERS = [
    Message(
        key=None if number % 3 == 0 else f"customer-{number}".encode(),
        value=None if number % 6 == 1 else b"order " * number,
        headers=(("source", b"shop"), ("trace", b""), ("source", bytes([number]))),
        partition=0,
        timestamp_ms=1_700_000_000_000 + number,
    )
    for number in range(60)
]


def as_found(messages: list[Message]) -> list[Found]:
    return [
        Found(
            partition=0,
            offset=offset,
            timestamp_ms=message.timestamp_ms or 0,
            key=message.key,
            value=message.value,
            headers=message.headers,
        )
        for offset, message in enumerate(messages)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_back_what_it_wrote(
    client: KafkaClient, topic: TopicMaker, broker: Broker, codec: str
) -> None:
    name = topic()
    receipts = client.produce(name, ORDERS, codec=codec)
    assert receipts == [Receipt(partition=0, offset=offset) for offset in range(len(ORDERS))]
    assert client.read(name, 0, from_offset=0, count=len(ORDERS)) == as_found(ORDERS)
    batches = stored_batches(broker.data, name)
    assert {batch.codec for batch in batches} == {codec}, "stored as the producer packed it"
    assert all(batch.producer_id >= 0 for batch in batches), "idempotence was on"


@pytest.mark.parametrize("codec", CODECS)
def test_another_client_reads_the_same(
    client: KafkaClient, confluent: ConfluentClient, topic: TopicMaker, codec: str
) -> None:
    name = topic()
    confluent.produce(name, ORDERS, codec=codec)
    assert client.read(name, 0, from_offset=0, count=len(ORDERS)) == as_found(ORDERS)


def test_a_null_header_is_not_an_empty_one(client: KafkaClient, topic: TopicMaker) -> None:
    if client.name in {"aiokafka", "kafka-python"}:
        pytest.skip(f"the producer of {client.name} takes no null header")
    name = topic()
    message = Message(value=b"v", headers=(("null", None), ("empty", b"")), partition=0)
    client.produce(name, [message])
    [found] = client.read(name, 0, from_offset=0, count=1)
    assert found.headers == message.headers


def test_a_topic_that_asks_for_a_codec_is_stored_in_it(
    client: KafkaClient, topic: TopicMaker, broker: Broker
) -> None:
    name = topic(**{"compression.type": "gzip"})
    client.produce(name, ORDERS, codec="none")
    assert {batch.codec for batch in stored_batches(broker.data, name)} == {"gzip"}
    assert client.read(name, 0, from_offset=0, count=len(ORDERS)) == as_found(ORDERS)

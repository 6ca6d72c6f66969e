"""`max.message.bytes` bounds a batch: one of that size goes in, one byte more does not."""

from collections.abc import Callable

import pytest

from rig.broker import Broker
from rig.clients.interface import KafkaClient, Message, Receipt, Refused
from rig.stored_batches import stored_batches

MESSAGE_TOO_LARGE = 10
BATCH_HEADER_BYTES = 61
DEFAULT_BYTES_MAX = 1024 * 1024 + 12
TopicMaker = Callable[..., str]


def varint_bytes(value: int) -> int:
    """How long a number is in a record: zigzag, seven bits a byte."""
    return max(1, -(-(value << 1).bit_length() // 7))


def batch_bytes(value_bytes: int) -> int:
    """The size of a batch of one record with this value and neither key nor headers."""
    body = 1 + 1 + 1 + 1 + varint_bytes(value_bytes) + value_bytes + 1
    return BATCH_HEADER_BYTES + varint_bytes(body) + body


def value_filling(size_bytes: int) -> bytes:
    near = range(size_bytes - 100, size_bytes)
    [value_bytes] = [count for count in near if batch_bytes(count) == size_bytes]
    return bytes(value_bytes)


@pytest.mark.parametrize("bytes_max", [20_000, DEFAULT_BYTES_MAX], ids=["set", "default"])
def test_the_largest_message_goes_in_and_one_byte_more_does_not(
    client: KafkaClient, topic: TopicMaker, broker: Broker, bytes_max: int
) -> None:
    settings = {} if bytes_max == DEFAULT_BYTES_MAX else {"max.message.bytes": str(bytes_max)}
    name = topic(**settings)
    largest = Message(value=value_filling(bytes_max), partition=0)
    larger = Message(value=value_filling(bytes_max) + b"+", partition=0)

    assert client.produce(name, [largest], alone=True) == [Receipt(partition=0, offset=0)]
    [refusal] = client.produce(name, [larger], alone=True)
    assert isinstance(refusal, Refused)
    assert refusal.code == MESSAGE_TOO_LARGE

    assert [batch.size_bytes for batch in stored_batches(broker.data, name)] == [bytes_max]
    [found] = client.read(name, 0, from_offset=0, count=1)
    assert found.value == largest.value
    assert client.offset_bounds(name, 0) == (0, 1), "the refused message left no trace"

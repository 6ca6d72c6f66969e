"""The same key lands in the same partition whoever sends it, and order holds within a partition."""

from collections import Counter
from collections.abc import Callable

from rig.clients.interface import KafkaClient, Message, Receipt, Refused
from rig.clients.java import JavaClient

TopicMaker = Callable[..., str]
PARTITIONS = 6
KEYS = [b"sku-%d" % number for number in range(200)] + [b"", b"\x00", b"\xff" * 7]

# Where Apache Kafka's Java client puts a key in a topic of six partitions.
JAVA_PLACES: dict[bytes, int] = {
    b"": 3,
    b"a": 4,
    b"ab": 2,
    b"abc": 3,
    b"abcd": 2,
    b"21": 0,
    b"foobar": 0,
    b"a-little-bit-long-string": 2,
    b"a-little-bit-longer-string": 5,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": 5,
    b"\xff\xfe\x80": 3,
    b"order-1": 4,
    b"order-2": 3,
    b"order-3": 3,
    b"order-4": 2,
    b"order-5": 2,
    b"sku-49999": 3,
}


def places(receipts: list[Receipt | Refused]) -> list[int]:
    assert all(isinstance(receipt, Receipt) for receipt in receipts)
    return [receipt.partition for receipt in receipts if isinstance(receipt, Receipt)]


def test_a_key_lands_where_the_java_client_puts_it(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic(partitions=PARTITIONS)
    keys = list(JAVA_PLACES)
    chosen = places(client.produce(name, [Message(key=key, value=b"v") for key in keys]))
    assert dict(zip(keys, chosen, strict=True)) == JAVA_PLACES


def test_two_hundred_keys_land_where_java_puts_them(
    client: KafkaClient, java: JavaClient, topic: TopicMaker
) -> None:
    name = topic(partitions=PARTITIONS)
    messages = [Message(key=key, value=b"v") for key in KEYS]
    assert places(client.produce(name, messages)) == places(java.produce(name, messages))


def test_records_of_a_key_stay_in_order(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic(partitions=PARTITIONS)
    sent = [Message(key=b"payment-%d" % (step % 17), value=b"%d" % step) for step in range(2_000)]
    client.produce(name, sent)
    seen: dict[bytes | None, list[int]] = {}
    homes: dict[bytes | None, set[int]] = {}
    for partition in range(PARTITIONS):
        first, end = client.offset_bounds(name, partition)
        found = client.read(name, partition, from_offset=first, count=end) if end else []
        assert [record.offset for record in found] == list(range(end))
        for record in found:
            seen.setdefault(record.key, []).append(int(record.value or b""))
            homes.setdefault(record.key, set()).add(partition)
    assert sum(len(steps) for steps in seen.values()) == len(sent)
    assert all(steps == sorted(steps) for steps in seen.values())
    assert all(len(home) == 1 for home in homes.values())


def test_records_without_a_key_spread(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic(partitions=PARTITIONS)
    # Sticky partitioners move on by the batch, so there is enough here to fill many.
    spread = Counter(places(client.produce(name, [Message(value=bytes(2_000))] * 1_000)))
    assert set(spread) == set(range(PARTITIONS))

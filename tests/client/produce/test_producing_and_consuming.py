"""The producer and the consumer against a broker."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.admin.admin import Admin
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import BufferFull, Refused
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.partitioner import RoundRobin, partition_of_key
from penstock.client.produce.producer import Acks, Delivery, Producer, ProducerRules
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.records.compression import Codec
from penstock.testing import Broker
from rig.client_cluster import run_with_cluster

Run = Callable[[Callable[[Cluster], Any]], Any]
FROM_START = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(wait_ms_max=20))


async def read(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    while len(records) < count:
        records += await consumer.poll(wait_ms=5_000, records_max=count - len(records))
    return records


async def read_all(cluster: Cluster, topic: str, count: int) -> list[ConsumedRecord]:
    view = await cluster.need([topic])
    async with Consumer(cluster, rules=FROM_START) as consumer:
        await consumer.assign(TopicPartition(topic, p.index) for p in view.topics[topic].partitions)
        return await read(consumer, count)


async def write(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    async with Producer(cluster) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, timestamp_ms=1_000 + number)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_as_they_were_sent(
    penstock: Broker, with_cluster: Run, codec: Codec
) -> None:
    topic = penstock.topic()
    sent = [
        (b"key", b"value", (("h", b"1"), ("none", None)), 1_000),
        (None, b"", (), 1_001),
        (b"", None, (), 1_002),
        (b"k" * 3_000, b"v" * 30_000, (), 1_003),
    ]

    async def work(cluster: Cluster) -> list[ConsumedRecord]:
        rules = ProducerRules(batches=BatchRules(codec=codec))
        async with Producer(cluster, rules=rules) as producer:
            deliveries = [
                await producer.send(topic, v, key=k, headers=h, timestamp_ms=t)
                for k, v, h, t in sent
            ]
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2, 3]
        return await read_all(cluster, topic, len(sent))

    records = with_cluster(work)
    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in records] == sent


def test_key_keeps_its_order_and_its_partition(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic(partitions=5)

    async def work(cluster: Cluster) -> list[ConsumedRecord]:
        rules = ProducerRules(batches=BatchRules(batch_bytes_max=400, linger_ms=1))
        async with Producer(cluster, rules=rules) as producer:
            for number in range(2_000):
                await producer.send(topic, b"%d" % number, key=b"k%d" % (number % 20))
        return await read_all(cluster, topic, 2_000)

    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in with_cluster(work):
        assert record.partition == partition_of_key(record.key, 5)
        by_key[record.key].append(int(record.value))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert sum(map(len, by_key.values())) == 2_000


def test_keys_find_partitions_that_were_added_while_a_producer_sends(penstock: Broker) -> None:
    topic = penstock.topic(partitions=1)
    key = next(key for n in range(100) if partition_of_key(key := b"%d" % n, 4) == 3)

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster) as producer:
            first = await (await producer.send(topic, b"", key=key))
            assert first.partition == 0
            await Admin(cluster).create_partitions({topic: 4})
            while (await (await producer.send(topic, b"", key=key))).partition != 3:
                pass  # until the view is older than the rules allow, and was asked for again

    rules = ClusterRules(backoff_ms=5, topic_ms_max=100, metadata_ms_max=200)
    run_with_cluster(penstock.bootstrap, work, rules, seconds_max=30)


@pytest.mark.parametrize("partitions", [2, 3])
def test_keyless_records_take_turns(penstock: Broker, with_cluster: Run, partitions: int) -> None:
    topic = penstock.topic(partitions=partitions)

    async def work(cluster: Cluster) -> Counter[int]:
        async with Producer(cluster, partitioner=RoundRobin()) as producer:
            for _ in range(4 * partitions):
                await producer.send(topic, b"")
        records = await read_all(cluster, topic, 4 * partitions)
        return Counter(record.partition for record in records)

    assert with_cluster(work) == dict.fromkeys(range(partitions), 4)


@pytest.mark.parametrize("partitions", [2, 3])
def test_batches_of_keyless_records_are_spread(
    penstock: Broker, with_cluster: Run, partitions: int
) -> None:
    topic = penstock.topic(partitions=partitions)

    async def work(cluster: Cluster) -> Counter[int]:
        rules = ProducerRules(batches=BatchRules(batch_bytes_max=1_000))
        async with Producer(cluster, rules=rules) as producer:
            for _ in range(600):
                await producer.send(topic, b"x" * 50)
            for _ in range(2 * partitions):  # and batches that are sent before they are full
                await producer.send(topic, b"")
                await producer.flush()
        records = await read_all(cluster, topic, 600 + 2 * partitions)
        return Counter(record.partition for record in records)

    counts = with_cluster(work)
    assert set(counts) == set(range(partitions))
    assert max(counts.values()) < 2 * min(counts.values())


@pytest.mark.parametrize("acks", [Acks.NONE, Acks.LEADER])
def test_fewer_acks_deliver_too(penstock: Broker, with_cluster: Run, acks: Acks) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes | None]:
        rules = ProducerRules(acks=acks, batches=BatchRules(idempotent=False, linger_ms=0))
        async with Producer(cluster, rules=rules) as producer:
            for number in range(20):
                await (await producer.send(topic, b"%d" % number))
        return [record.value for record in await read_all(cluster, topic, 20)]

    assert with_cluster(work) == [b"%d" % number for number in range(20)]


def test_record_that_is_too_large_is_refused_and_the_others_pass(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic(max_message_bytes=500)

    async def work(cluster: Cluster) -> list[object]:
        async with Producer(cluster) as producer:
            values = [b"small", b"x" * 600, b"small too"]
            deliveries = [await producer.send(topic, value) for value in values]
            return await asyncio.gather(*deliveries, return_exceptions=True)

    first, second, third = with_cluster(work)
    assert (first.offset, third.offset) == (0, 1)
    assert isinstance(second, Refused)
    assert second.code == ErrorCode.MESSAGE_TOO_LARGE


def test_unknown_topic_and_partition_are_refused(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> None:
        rules = ProducerRules(block_ms_max=2_000)
        async with Producer(cluster, rules=rules) as producer:
            with pytest.raises(Refused, match="no such topic"):
                await producer.send("nope", b"")
            with pytest.raises(Refused, match="partitions 0 to 0"):
                await producer.send(topic, b"", partition=1)
        async with Consumer(cluster) as consumer:
            with pytest.raises(Refused, match="no such partition"):
                await consumer.assign([TopicPartition(topic, 1)])

    with_cluster(work)


def test_flush_waits_for_what_was_sent_before_it_and_for_nothing_else(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()
    rules = ProducerRules(batches=BatchRules(linger_ms=0, batch_bytes_max=1))

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster, rules=rules) as producer:
            sent: list[Delivery] = []
            begun = asyncio.Event()

            async def send_on() -> None:
                """There are always records on their way."""
                while True:
                    sent.append(await producer.send(topic, b"x"))
                    if len(sent) > 20:
                        await sent[-20]
                        begun.set()

            sending = cluster.tasks.start(send_on())
            await begun.wait()
            before = list(sent)
            async with asyncio.timeout(20):
                await producer.flush()
            assert all(delivery.done() for delivery in before)
            sending.cancel()

    with_cluster(work)


def test_buffer_that_stays_full_is_told(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> None:
        batches = BatchRules(linger_ms=60_000, batch_bytes_max=900, buffer_bytes_max=1_000)
        rules = ProducerRules(block_ms_max=2_000, batches=batches)
        async with Producer(cluster, rules=rules) as producer:
            await producer.send(topic, b"x" * 700)
            with pytest.raises(BufferFull):
                await producer.send(topic, b"x" * 700)

    with_cluster(work)


def test_consumer_stands_where_it_is_put(penstock: Broker, with_cluster: Run) -> None:
    place = TopicPartition(penstock.topic(), 0)

    async def work(cluster: Cluster) -> None:
        await write(cluster, place.topic, [b"%d" % number for number in range(10)])
        async with Consumer(cluster, rules=FROM_START) as consumer:
            await consumer.assign([place])
            assert await consumer.position(place) == 0
            assert [r.offset for r in await read(consumer, 3)] == [0, 1, 2]
            assert await consumer.position(place) == 3
            consumer.seek(place, 7)
            assert [r.offset for r in await read(consumer, 3)] == [7, 8, 9]
            consumer.seek_to_beginning()
            assert [r.offset for r in await read(consumer, 1)] == [0]
            consumer.seek_to_end()
            assert await consumer.position(place) == 10
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 10}

    with_cluster(work)


def test_offsets_are_found_by_time(penstock: Broker, with_cluster: Run) -> None:
    place = TopicPartition(penstock.topic(), 0)

    async def work(cluster: Cluster) -> None:
        await write(cluster, place.topic, [b"%d" % number for number in range(10)])
        async with Consumer(cluster) as consumer:
            found = await consumer.offsets_for_times({place: 1_004})
            assert (found[place].offset, found[place].timestamp_ms) == (4, 1_004)
            found = await consumer.offsets_for_times({place: 5_000})
            assert found[place].offset is None

    with_cluster(work)


def test_paused_partition_is_silent_until_resumed(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster) as producer:
            for partition in (0, 1):
                await producer.send(topic, b"", partition=partition)
        async with Consumer(cluster, rules=FROM_START) as consumer:
            await consumer.assign([first, second])
            consumer.pause([first])
            assert [r.partition for r in await read(consumer, 1)] == [1]
            assert await consumer.poll(wait_ms=60) == []
            consumer.resume([first])
            assert [r.partition for r in await read(consumer, 1)] == [0]

    with_cluster(work)


def test_position_before_the_log_starts_over_at_its_beginning(
    penstock: Broker, with_cluster: Run
) -> None:
    place = TopicPartition(penstock.topic(), 0)

    async def work(cluster: Cluster) -> None:
        await write(cluster, place.topic, [b"%d" % number for number in range(10)])
        assert await Admin(cluster).delete_records({place: Offset(6)}) == {place: 6}
        async with Consumer(cluster, rules=FROM_START) as consumer:
            await consumer.assign([place])
            consumer.seek(place, 2)
            assert [r.offset for r in await read(consumer, 4)] == [6, 7, 8, 9]
        strict = ConsumerRules(reset=Reset.NONE, fetch=FetchRules(wait_ms_max=20))
        async with Consumer(cluster, rules=strict) as consumer:
            await consumer.assign([place])
            consumer.seek(place, 2)
            with pytest.raises(Refused, match="does not have this offset"):
                await consumer.poll(wait_ms=5_000)

    with_cluster(work)


def test_new_records_reach_a_consumer_that_waits(penstock: Broker, with_cluster: Run) -> None:
    place = TopicPartition(penstock.topic(), 0)

    async def work(cluster: Cluster) -> None:
        async with Consumer(cluster) as consumer, Producer(cluster) as producer:
            await consumer.assign([place])
            assert await consumer.position(place) == 0
            for number in range(5):
                await (await producer.send(place.topic, b"%d" % number))
                (record,) = await read(consumer, 1)
                assert record.value == b"%d" % number

    with_cluster(work)


def test_small_buffer_reads_all_of_a_large_topic(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic(partitions=3)

    async def work(cluster: Cluster) -> list[bytes | None]:
        await write(cluster, topic, [b"%06d" % number + b"." * 500 for number in range(1_000)])
        fetch = FetchRules(wait_ms_max=20, partition_bytes_max=2_000, bytes_max=4_000)
        rules = ConsumerRules(reset=Reset.EARLIEST, fetch=fetch, prefetched_bytes_max=5_000)
        async with Consumer(cluster, rules=rules) as consumer:
            await consumer.assign(TopicPartition(topic, index) for index in range(3))
            return [record.value for record in await read(consumer, 1_000)]

    values = with_cluster(work)
    assert len(set(values)) == 1_000

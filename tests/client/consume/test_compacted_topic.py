"""A compacted topic read to its end: the last committed value of each key, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.consume.compacted_topic import (
    FIRST,
    EndNotReached,
    last_values,
    live_keys,
    read_range,
)
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.identity import TopicPartition
from penstock.testing import Broker

Run = Callable[[Callable[[Cluster], Any]], Any]


def test_the_last_committed_value_of_each_key_is_found(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic(partitions=3)

    async def work(cluster: Cluster) -> None:
        async with TransactionalProducer(cluster, "t") as producer:
            async with producer.transaction():
                for key in (b"a", b"b", b"c"):
                    await producer.send(topic, b"first", key=key)
            async with producer.transaction():
                await producer.send(topic, b"second", key=b"a")
                await producer.send(topic, None, key=b"b")
            await producer.begin()
            await producer.send(topic, b"open", key=b"c")
            await producer.flush()
            assert await last_values(cluster, topic) == {b"a": b"second", b"c": b"first"}
            assert await live_keys(cluster, topic) == {b"a", b"c"}
            await producer.abort()
        assert await live_keys(cluster, topic) == {b"a", b"c"}

    with_cluster(work)


def test_a_key_that_was_moved_is_live_while_one_partition_has_it(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic(partitions=2)

    async def work(cluster: Cluster) -> None:
        async with TransactionalProducer(cluster, "t") as producer, producer.transaction():
            for key, value, partition in (
                (b"a", b"old", 0),
                (b"a", None, 1),
                (b"b", None, 0),
                (b"b", b"new", 1),
                (b"c", b"old", 0),
                (b"c", None, 0),
            ):
                await producer.send(topic, value, key=key, partition=partition)
        async with TransactionalProducer(cluster, "t"):  # all is committed
            assert await live_keys(cluster, topic) == {b"a", b"b"}

    with_cluster(work)


def test_an_end_that_a_transaction_holds_back_is_not_waited_for_without_bound(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> None:
        async with TransactionalProducer(cluster, "t") as producer:
            await producer.begin()
            await producer.send(topic, b"open", key=b"c")
            await producer.flush()
            ends = await offsets_of(cluster, [TopicPartition(topic, 0)], When.LATEST)
            with pytest.raises(EndNotReached, match=f"topic {topic} could not be read to its end"):
                starts = dict.fromkeys(ends, FIRST)
                await read_range(cluster, starts, ends, lambda _: None, idle_ms_max=200)

    with_cluster(work)

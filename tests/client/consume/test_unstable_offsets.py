"""Offsets that a transaction is about to commit: members of the group wait until it is over."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import GroupConsumer, GroupProtocol, GroupRules
from penstock.client.consume.group_offsets import Committed
from penstock.client.network.cluster import Cluster
from penstock.client.produce.producer import Producer
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker
from penstock.world.entropy import RealEntropy

Run = Callable[[Callable[[Cluster], Any]], Any]
READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(wait_ms_max=20))
POLLS = 5


def member(cluster: Cluster, topic: str, protocol: GroupProtocol) -> GroupConsumer:
    rules = GroupRules(protocol=protocol, heartbeat_ms=100, reading=READING)
    return GroupConsumer(cluster, "g", entropy=RealEntropy(), topics=(topic,), rules=rules)


async def write(cluster: Cluster, topic: str) -> None:
    async with Producer(cluster) as producer:
        for number in range(5):
            await producer.send(topic, b"%d" % number)


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_partition_is_taken_on_when_the_transaction_with_its_offset_is_over(
    penstock: Broker, with_cluster: Run, protocol: GroupProtocol
) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)

    async def work(cluster: Cluster) -> list[bytes | None]:
        await write(cluster, topic)
        async with TransactionalProducer(cluster, "t") as producer:
            await producer.begin()
            await producer.send_offsets("g", {place: Committed(offset=Offset(3))})
            async with member(cluster, topic, protocol) as one:
                while not one.member.has_change():
                    assert await one.poll(wait_ms=20) == []
                for _ in range(POLLS):
                    assert await one.poll(wait_ms=20) == []
                assert one.assignment == []
                await producer.commit()
                while not (records := await one.poll(wait_ms=100)):
                    pass
                return [record.value for record in records]

    assert with_cluster(work) == [b"3", b"4"]


def test_committed_offset_is_told_when_its_transaction_is_over(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)

    async def work(cluster: Cluster) -> dict[TopicPartition, Offset]:
        async with TransactionalProducer(cluster, "t") as producer:
            await producer.begin()
            await producer.send_offsets("g", {place: Committed(offset=Offset(3))})
            async with member(cluster, topic, GroupProtocol.CONSUMER) as one:
                asking = asyncio.ensure_future(one.committed([place]))
                done, _ = await asyncio.wait([asking], timeout=0.2)
                assert not done
                await producer.commit()
                return await asking

    assert with_cluster(work) == {place: 3}

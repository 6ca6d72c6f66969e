"""Offsets that a transaction is about to commit: members of the group wait until it is over."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import (
    ABSENT_MS_MAX,
    GroupConsumer,
    GroupProtocol,
    GroupRules,
)
from penstock.client.consume.group_offsets import Committed
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.client.network.routing import ClusterView
from penstock.client.produce.producer import Producer
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.entropy import RealEntropy
from penstock.world.tcp import TcpNetwork

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


class LaggingCluster(Cluster):
    """Whoever is asked for topics does not know them, as long as a test says so."""

    is_behind = False
    refused = 0

    async def need(self, topics: Iterable[str], *, wait_ms: int | None = None) -> ClusterView:
        if not self.is_behind:
            return await super().need(topics, wait_ms=wait_ms)
        self.refused += 1
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ", ".join(topics))


class LateClock:
    """The real one, which also goes on when a test says so."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._clock = RealClock()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() + self.ahead_ms

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us() + 1000 * self.ahead_ms


def test_wait_for_a_transaction_does_not_count_as_absence_of_the_partition(
    penstock: Broker, with_cluster: Run
) -> None:
    topic, clock = penstock.topic(), LateClock()
    place = TopicPartition(topic, 0)

    async def refused(cluster: LaggingCluster, one: GroupConsumer) -> None:
        """Until the partition has been looked for in vain; from then on it is there."""
        cluster.is_behind, before = True, cluster.refused
        while cluster.refused == before:
            assert await one.poll(wait_ms=20) == []
        cluster.is_behind = False

    async def work(cluster: Cluster) -> list[TopicPartition]:
        addresses = parse_addresses(penstock.bootstrap)
        async with (
            TransactionalProducer(cluster, "t") as producer,
            LaggingCluster(TcpNetwork(), clock, addresses, rules=cluster.rules) as lagging,
            member(lagging, topic, GroupProtocol.CLASSIC) as one,
        ):
            await refused(lagging, one)
            await producer.begin()
            await producer.send_offsets("g", {place: Committed(offset=Offset(0))})
            for _ in range(POLLS):
                assert await one.poll(wait_ms=20) == []
            assert one.assignment == []
            clock.ahead_ms = ABSENT_MS_MAX
            await producer.commit()
            await refused(lagging, one)
            while not one.assignment:
                await one.poll(wait_ms=20)
            return one.assignment

    assert with_cluster(work) == [place]

"""Members of a group whose topics change under them: partitions are added, or a topic goes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.admin import Admin
from penstock.client.consume import group_consumer
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import (
    GroupConsumer,
    GroupProtocol,
    GroupRules,
    Listener,
)
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.testing import Broker
from penstock.wire.messages.metadata import MetadataResponse
from penstock.world.clock import RealClock
from penstock.world.entropy import RealEntropy
from penstock.world.tcp import TcpNetwork

Run = Callable[[Callable[[Cluster], Any]], Any]
READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(wait_ms_max=20))
MODERN = GroupRules(protocol=GroupProtocol.CONSUMER, reading=READING)
CLASSIC = GroupRules(protocol=GroupProtocol.CLASSIC, heartbeat_ms=100, reading=READING)


@asynccontextmanager
async def own_cluster(broker: Broker, kind: type[Cluster] = Cluster) -> AsyncIterator[Cluster]:
    addresses = parse_addresses(broker.bootstrap)
    rules = ClusterRules(backoff_ms=5, topic_ms_max=100)
    async with kind(TcpNetwork(), RealClock(), addresses, rules=rules) as cluster:
        yield cluster


def member(
    cluster: Cluster, *topics: str, rules: GroupRules, listener: Listener | None = None
) -> GroupConsumer:
    return GroupConsumer(
        cluster, "g", entropy=RealEntropy(), topics=topics, rules=rules, listener=listener
    )


async def polled_until(condition: Callable[[], bool], *members: GroupConsumer) -> None:
    while not condition():
        await asyncio.gather(*(one.poll(wait_ms=20) for one in members))


def test_consumer_is_given_a_partition_that_was_added_just_now(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[TopicPartition]:
        async with Consumer(cluster) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            await Admin(cluster).create_partitions({topic: 2})
            await consumer.assign([TopicPartition(topic, 1)])
            with pytest.raises(Refused):
                await consumer.add([TopicPartition(topic, 2)])
            return consumer.assignment

    assert with_cluster(work) == [TopicPartition(topic, 1)]


def test_member_takes_on_partitions_that_its_coordinator_knew_of_first(penstock: Broker) -> None:
    topic = penstock.topic()

    async def work() -> None:
        async with own_cluster(penstock) as cluster, member(cluster, topic, rules=MODERN) as one:
            await polled_until(lambda: len(one.assignment) == 1, one)
            async with own_cluster(penstock) as other:
                await Admin(other).create_partitions({topic: 3})
            await polled_until(lambda: len(one.assignment) == 3, one)

    asyncio.run(asyncio.wait_for(work(), 20))


def test_follower_takes_on_partitions_that_the_leader_of_its_group_knew_of_first(
    penstock: Broker,
) -> None:
    topic = penstock.topic(partitions=2)

    async def work() -> None:
        async with (
            own_cluster(penstock) as first,
            own_cluster(penstock) as second,
            own_cluster(penstock) as third,
            member(first, topic, rules=CLASSIC) as one,
        ):
            await polled_until(lambda: len(one.assignment) == 2, one)
            async with member(second, topic, rules=CLASSIC) as two:
                await polled_until(lambda: len(two.assignment) == 1, one, two)
                await Admin(third).create_partitions({topic: 6})
                await first.refresh()
                async with member(third, topic, rules=CLASSIC) as three:
                    members = (one, two, three)
                    await polled_until(
                        lambda: all(len(each.assignment) == 2 for each in members), *members
                    )

    asyncio.run(asyncio.wait_for(work(), 20))


class DeludedCluster(Cluster):
    """Takes every topic for one of four partitions."""

    def _accept(self, reply: MetadataResponse, *, all_topics: bool) -> None:
        super()._accept(reply, all_topics=all_topics)
        topics = {
            name: replace(
                topic,
                partitions=tuple(replace(topic.partitions[0], index=index) for index in range(4)),
            )
            for name, topic in self.view.topics.items()
        }
        self.view = replace(self.view, topics=topics)


def test_partition_that_does_not_appear_is_told_in_the_end(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = penstock.topic()
    monkeypatch.setattr(group_consumer, "ABSENT_MS_MAX", 300)

    async def work() -> None:
        async with (
            own_cluster(penstock, DeludedCluster) as first,
            own_cluster(penstock) as second,
            member(first, topic, rules=CLASSIC) as leader,
        ):
            await polled_until(lambda: len(leader.assignment) == 4, leader)
            async with member(second, topic, rules=CLASSIC) as follower:
                began_s = asyncio.get_running_loop().time()
                with pytest.raises(Refused) as refused:
                    await polled_until(lambda: bool(follower.assignment), leader, follower)
                assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert asyncio.get_running_loop().time() - began_s > 0.3

    asyncio.run(asyncio.wait_for(work(), 20))


@pytest.mark.parametrize(
    "rules", [pytest.param(MODERN, id="consumer"), pytest.param(CLASSIC, id="classic")]
)
def test_partition_is_given_up_though_the_topic_of_another_one_is_gone(
    penstock: Broker, rules: GroupRules
) -> None:
    shared, doomed = penstock.topic(partitions=2), penstock.topic()

    async def work() -> None:
        async with own_cluster(penstock) as first, own_cluster(penstock) as second:

            async def delete(partitions: tuple[TopicPartition, ...]) -> None:
                if TopicPartition(doomed, 0) not in partitions:
                    await Admin(first).delete_topics([doomed])
                    await first.refresh()

            listener = Listener(revoked=delete)
            async with member(first, shared, doomed, rules=rules, listener=listener) as one:
                await polled_until(lambda: len(one.assignment) == 3, one)
                async with member(second, shared, rules=rules) as two:
                    await polled_until(lambda: len(two.assignment) == 1, one, two)
                    assert not {*one.assignment} & {*two.assignment}

    asyncio.run(asyncio.wait_for(work(), 20))

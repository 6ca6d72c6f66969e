"""A member reads metadata now and then; brokers that do not tell it do not end the membership."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.client.admin.admin import Admin
from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import GroupConsumer, GroupProtocol, GroupRules
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.testing import Broker
from penstock.wire.api import ApiKey
from penstock.world.clock import RealClock
from penstock.world.entropy import RealEntropy
from penstock.world.ports import Network
from penstock.world.tcp import TcpNetwork
from rig.troubled_network import TroubledNetwork

READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(wait_ms_max=20))
BACKOFF_MS = 50
METADATA_MS = 200
HEARTBEATS = {
    GroupProtocol.CLASSIC: ApiKey.HEARTBEAT,
    GroupProtocol.CONSUMER: ApiKey.CONSUMER_GROUP_HEARTBEAT,
}


@asynccontextmanager
async def member_with_a_partition(
    broker: Broker, network: Network, protocol: GroupProtocol, *topics: str
) -> AsyncIterator[GroupConsumer]:
    addresses, topics = parse_addresses(broker.bootstrap), topics or (broker.topic(),)
    rules = GroupRules(
        protocol=protocol,
        auto_commit_ms=None,  # brokers that keep silent would not take it
        heartbeat_ms=100,
        metadata_ms=METADATA_MS,
        reading=READING,
    )
    async with Cluster(
        network, RealClock(), addresses, rules=ClusterRules(backoff_ms=BACKOFF_MS)
    ) as cluster:
        consumer = GroupConsumer(cluster, "g", entropy=RealEntropy(), topics=topics, rules=rules)
        async with consumer:
            while not consumer.assignment:
                await consumer.poll(wait_ms=20)
            yield consumer


async def becomes(condition: Callable[[], bool]) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - nobody tells what has left by the network
                await asyncio.sleep(0.005)
    return condition()


async def poll_on(consumer: GroupConsumer) -> None:
    while True:
        await consumer.poll(wait_ms=20)


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_heartbeats_go_on_while_no_broker_answers_for_metadata(
    penstock: Broker, protocol: GroupProtocol
) -> None:
    network, heartbeat = TroubledNetwork(), HEARTBEATS[protocol]

    async def work() -> None:
        async with member_with_a_partition(penstock, network, protocol):
            assert await becomes(lambda: network.sent[heartbeat] > 0)
            network.hang(but=heartbeat)
            told = network.sent[heartbeat]
            # Metadata becomes due several times meanwhile.
            assert await becomes(lambda: network.sent[heartbeat] >= told + 10)

    asyncio.run(work())


def test_heartbeats_of_a_classic_leader_do_not_wait_for_a_topic_that_does_not_exist(
    penstock: Broker,
) -> None:
    network, topic = TroubledNetwork(), penstock.topic()

    async def work() -> None:
        async with member_with_a_partition(
            penstock, network, GroupProtocol.CLASSIC, topic, "missing"
        ):
            assert await becomes(lambda: network.sent[ApiKey.HEARTBEAT] > 0)
            network.hang(but=ApiKey.HEARTBEAT)
            told = network.sent[ApiKey.HEARTBEAT]
            assert await becomes(lambda: network.sent[ApiKey.HEARTBEAT] >= told + 10)

    asyncio.run(work())


def test_classic_leader_assigns_the_topics_that_it_knows_while_no_broker_answers_for_metadata(
    penstock: Broker,
) -> None:
    network, topic = TroubledNetwork(), penstock.topic(partitions=2)
    protocol = GroupProtocol.CLASSIC

    async def work() -> None:
        async with member_with_a_partition(penstock, network, protocol, topic, "missing") as leader:
            assert await becomes(lambda: network.sent[ApiKey.HEARTBEAT] > 0)
            network.hang(but=ApiKey.HEARTBEAT)
            polling = asyncio.ensure_future(poll_on(leader))
            try:
                async with (
                    asyncio.timeout(10),
                    member_with_a_partition(penstock, TcpNetwork(), protocol, topic) as follower,
                ):
                    assert not {*leader.assignment} & {*follower.assignment}
            finally:
                polling.cancel()

    asyncio.run(work())


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_metadata_that_no_broker_tells_is_asked_for_after_a_pause(
    penstock: Broker, protocol: GroupProtocol
) -> None:
    network = TroubledNetwork()
    tries = 60

    async def work() -> float:
        async with member_with_a_partition(penstock, network, protocol):
            began_s = asyncio.get_running_loop().time()
            network.go_away()
            assert await becomes(lambda: network.refused >= tries)
            network.is_away = False
            return asyncio.get_running_loop().time() - began_s

    # Membership, metadata and fetches try in turns of their own, each at two addresses at most.
    pauses = tries / (3 * 2)
    assert asyncio.run(work()) > pauses * BACKOFF_MS / 1000


def test_partitions_that_are_added_are_found_by_the_leader_of_a_classic_group(
    penstock: Broker,
) -> None:
    network = TroubledNetwork()

    async def work() -> None:
        async with member_with_a_partition(penstock, network, GroupProtocol.CLASSIC) as consumer:
            await Admin(consumer.cluster).create_partitions({consumer.topics[0]: 3})
            async with asyncio.timeout(10):
                while len(consumer.assignment) != 3:
                    await consumer.poll(wait_ms=20)
            assert {place.partition for place in consumer.assignment} == {0, 1, 2}

    asyncio.run(work())

"""A heartbeat of KIP-848 whose reply is lost: the next one makes the coordinator say it again."""

import asyncio
from collections.abc import Collection

from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import GroupConsumer, GroupProtocol, GroupRules
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.model.identity import TopicId
from penstock.testing import Broker
from penstock.wire.api import ApiKey
from penstock.world.clock import RealClock
from penstock.world.entropy import RealEntropy
from penstock.world.ports import Network
from penstock.world.tcp import TcpNetwork
from rig.troubled_network import TroubledNetwork

READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(wait_ms_max=20))
RULES = GroupRules(protocol=GroupProtocol.CONSUMER, reading=READING)


def own_cluster(broker: Broker, network: Network) -> Cluster:
    addresses, rules = parse_addresses(broker.bootstrap), ClusterRules(backoff_ms=5)
    return Cluster(network, RealClock(), addresses, rules=rules)


def member(cluster: Cluster, topic: str) -> GroupConsumer:
    return GroupConsumer(cluster, "g", entropy=RealEntropy(), topics=(topic,), rules=RULES)


def lose_next_assignment(network: TroubledNetwork, topic_id: TopicId) -> None:
    def tells_of_it(sent: Collection[ApiKey], received: bytes) -> bool:
        is_heartbeat = ApiKey.CONSUMER_GROUP_HEARTBEAT in sent
        return is_heartbeat and topic_id in received and not network.lost

    network.loses = tells_of_it


async def polled_until_shared(*members: GroupConsumer) -> None:
    while any(len(one.assignment) != 1 for one in members):
        await asyncio.gather(*(one.poll(wait_ms=20) for one in members))


def test_assignment_whose_reply_was_lost_is_told_again(penstock: Broker) -> None:
    topic = penstock.topic(partitions=2)
    network = TroubledNetwork()

    async def work() -> None:
        async with own_cluster(penstock, TcpNetwork()) as first, member(first, topic) as one:
            while len(one.assignment) != 2:
                await one.poll(wait_ms=20)
            lose_next_assignment(network, first.view.topic_id(topic))
            async with own_cluster(penstock, network) as second, member(second, topic) as two:
                await polled_until_shared(one, two)

    asyncio.run(asyncio.wait_for(work(), 20))
    assert network.lost == 1


def test_revocation_whose_reply_was_lost_is_told_again(penstock: Broker) -> None:
    topic = penstock.topic(partitions=2)
    network = TroubledNetwork()

    async def work() -> None:
        async with own_cluster(penstock, network) as first, member(first, topic) as one:
            while len(one.assignment) != 2:
                await one.poll(wait_ms=20)
            lose_next_assignment(network, first.view.topic_id(topic))
            async with own_cluster(penstock, TcpNetwork()) as second, member(second, topic) as two:
                await polled_until_shared(one, two)

    asyncio.run(asyncio.wait_for(work(), 20))
    assert network.lost == 1

"""Brokers that are away for a moment are waited for, as long as the rules allow."""

import asyncio

import pytest

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import ConnectionLost, Unreachable
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.errors import NetworkError
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork
from penstock.world.tcp_stream import TcpStream

TIMES_AWAY = 5
BREAKS = 2


class NetworkWithoutBroker(TcpNetwork):
    """Nobody answers at first."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def connect(self, address: Address) -> TcpStream:
        self.asked += 1
        if self.asked <= TIMES_AWAY:
            raise NetworkError(f"cannot connect to {address}: Connection refused")
        return await super().connect(address)


def reach(broker: Broker, network: TcpNetwork, rules: ClusterRules) -> bool:
    async def work() -> bool:
        addresses = parse_addresses(broker.bootstrap)
        async with Cluster(network, RealClock(), addresses, rules=rules) as cluster:
            return (await cluster.any_channel()).is_open

    return asyncio.run(work())


def test_a_broker_that_comes_back_in_time_is_reached(penstock: Broker) -> None:
    network = NetworkWithoutBroker()
    assert reach(penstock, network, ClusterRules(backoff_ms=1, reach_ms_max=60_000))
    assert network.asked == TIMES_AWAY + 1


def test_without_patience_it_is_told_at_once_that_none_is_there(penstock: Broker) -> None:
    network = NetworkWithoutBroker()
    with pytest.raises(Unreachable, match="no broker can be reached: cannot connect"):
        reach(penstock, network, ClusterRules())
    assert network.asked == 1


class BreakingNetwork(TcpNetwork):
    """The first connections break as soon as a question is sent, as if the broker were killed."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: list[TcpStream] = []

    async def connect(self, address: Address) -> TcpStream:
        self.streams.append(await super().connect(address))
        return self.streams[-1]

    @property
    def has_to_break(self) -> bool:
        return len(self.streams) <= BREAKS


def brokers_shown(broker: Broker, rules: ClusterRules) -> int:
    async def work() -> int:
        network = BreakingNetwork()
        addresses = parse_addresses(broker.bootstrap)
        async with Cluster(network, RealClock(), addresses, rules=rules) as cluster:
            await cluster.any_channel()
            asking = asyncio.ensure_future(cluster.refresh())
            while not asking.done():
                await asyncio.sleep(0)
                if network.has_to_break:
                    network.streams[-1].close()
            return len((await asking).brokers)

    return asyncio.run(work())


def test_metadata_is_asked_again_of_whoever_lives_when_a_broker_dies_over_it(
    penstock: Broker,
) -> None:
    assert brokers_shown(penstock, ClusterRules(backoff_ms=1, reach_ms_max=60_000)) == 1


def test_without_patience_it_is_told_that_a_broker_has_died_over_it(penstock: Broker) -> None:
    with pytest.raises(ConnectionLost):
        brokers_shown(penstock, ClusterRules(backoff_ms=1))

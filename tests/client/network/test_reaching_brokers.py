"""Brokers that are away for a moment are waited for, as long as the rules allow."""

import asyncio

import pytest

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import Unreachable
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.errors import NetworkError
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork
from penstock.world.tcp_stream import TcpStream

TIMES_AWAY = 5


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

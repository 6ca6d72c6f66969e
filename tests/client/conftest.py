"""A cluster of one broker, for the length of a coroutine."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client.bootstrap import parse_addresses
from penstock.client.cluster import Cluster, ClusterRules
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

Work = Callable[[Cluster], Awaitable[Any]]
RULES = ClusterRules(backoff_ms=5, topic_ms_max=100)


def run_with_cluster(bootstrap: str, work: Work, rules: ClusterRules = RULES) -> Any:
    async def run() -> Any:
        addresses = parse_addresses(bootstrap)
        async with Cluster(TcpNetwork(), RealClock(), addresses, rules=rules) as cluster:
            async with asyncio.timeout(20):
                return await work(cluster)

    return asyncio.run(run())


@pytest.fixture
def with_cluster(penstock: Broker) -> Callable[[Work], Any]:
    return lambda work: run_with_cluster(penstock.bootstrap, work)

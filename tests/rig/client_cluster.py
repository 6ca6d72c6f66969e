"""Our own client, connected for the length of a coroutine."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

Work = Callable[[Cluster], Awaitable[Any]]
RULES = ClusterRules(backoff_ms=5, topic_ms_max=100)
SECONDS_MAX = 120


def run_with_cluster(
    bootstrap: str, work: Work, rules: ClusterRules = RULES, seconds_max: int = SECONDS_MAX
) -> Any:
    async def run() -> Any:
        addresses = parse_addresses(bootstrap)
        async with Cluster(TcpNetwork(), RealClock(), addresses, rules=rules) as cluster:
            async with asyncio.timeout(seconds_max):
                return await work(cluster)

    return asyncio.run(run())

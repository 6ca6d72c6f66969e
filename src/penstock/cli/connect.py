"""A cluster for the length of one command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.client.bootstrap import parse_addresses
from penstock.client.cluster import Cluster, ClusterRules
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

Result = TypeVar("Result")

RULES = ClusterRules(client_id="penstock-cli")


def with_cluster(
    bootstrap: str, work: Callable[[Cluster], Awaitable[Result]], *, rules: ClusterRules = RULES
) -> Result:
    """Connects, does the work, and closes. ClientError when no broker can be reached."""
    addresses = parse_addresses(bootstrap)

    async def run() -> Result:
        async with Cluster(TcpNetwork(), RealClock(), addresses, rules=rules) as cluster:
            await cluster.any_channel()
            return await work(cluster)

    return asyncio.run(run())

"""A cluster for the length of one command."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
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


async def until_interrupted(work: Coroutine[None, None, object]) -> bool:
    """Does the work; False when Ctrl-C ended it, after which what it began can be brought to an
    end. A second Ctrl-C ends everything.
    """
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return False
    return True

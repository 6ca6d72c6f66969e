"""Questions that may be asked twice, asked again when the broker that was asked goes away.

Only for what has the same effect a second time: a list, a setting, a cancel, a move to the same
replicas.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ConnectionLost, TimedOut, Unreachable

Answer = TypeVar("Answer")

GONE_MS_MAX = 15_000  # after the first failure: a broker that died is fenced by then
GONE = (Unreachable, ConnectionLost, TimedOut)


async def repeated(cluster: Cluster, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The view is made anew before each repetition, by whichever broker answers. What `ask` raised
    last when no answer came in time.
    """
    deadline_ms: int | None = None
    while True:
        try:
            if deadline_ms is not None:
                await cluster.refresh()
            return await ask()
        except GONE:
            now_ms = cluster.clock.monotonic_ms()
            if deadline_ms is None:
                deadline_ms = now_ms + GONE_MS_MAX
            if now_ms >= deadline_ms:
                raise
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)

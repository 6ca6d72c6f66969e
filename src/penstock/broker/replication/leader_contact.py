"""Whether the node of a leader replies, and how long a fetcher waits before it tries again.

Waits grow with the number of failures since the last reply, and a change of the metadata that
concerns the node ends them. Told once: that there is no connection, and that there is one again.
"""

import asyncio
import logging

from penstock.broker.controller.links import NodeDown
from penstock.client.network.errors import ClientError, ConnectionLost
from penstock.model.events import FETCHER_CONNECTED, FETCHER_DISCONNECTED
from penstock.model.identity import NodeId
from penstock.world.event_log import tell
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

RECONNECT_WAIT_MS_MIN = 50
RECONNECT_WAIT_MS_MAX = 1_000
# So soon the controller has replaced a leader whose process has ended; else the cause is another.
LOST_MS_MAX = 2_000


class LeaderContact:
    """See the module."""

    def __init__(self, leader: NodeId, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._failures = 0  # of connections and sessions since the last reply
        self._is_told = False  # that there is no connection
        self._lost_ms: int | None = None  # since when the node has not replied, if it hung up
        self._hurry = asyncio.Event()  # the metadata has changed: a connection may succeed now

    @property
    def is_lost(self) -> bool:
        """Whether the node has just closed the connection, or refused one, and has not replied
        since: its process has probably ended, and the metadata will say who leads instead. After a
        while nothing is concluded from that any more: a living node may be cut off from this one.
        """
        lost_ms = self._lost_ms
        return lost_ms is not None and self._clock.monotonic_ms() - lost_ms < LOST_MS_MAX

    def hurry(self) -> None:
        """The metadata has changed: the node may be back."""
        self._failures = 0
        self._hurry.set()

    def replaced(self) -> None:
        """The node has another process, or another address: of this one nothing is known yet."""
        self._lost_ms = None

    def connecting(self) -> None:
        """What the metadata said until now is known to the connection that begins."""
        self._hurry.clear()

    def replied(self) -> None:
        self._failures = 0
        self._lost_ms = None
        if self._is_told:
            self._is_told = False
            tell(logger, FETCHER_CONNECTED, leader=self._leader)

    async def session_refused(self, code: int) -> None:
        """It is opened again at once; a leader that goes on so is given time."""
        self._failures += 1
        if self._failures > 1:
            await self._wait(f"error code {code} to each fetch")

    async def connection_failed(self, error: ClientError) -> None:
        """Waits, but not the first time after a reply: the leader may have closed an old
        connection.
        """
        if self._lost_ms is None and isinstance(error, ConnectionLost | NodeDown):
            self._lost_ms = self._clock.monotonic_ms()
        if isinstance(error, NodeDown) or self._failures:
            await self._wait(str(error))
        else:
            self._failures = 1

    async def _wait(self, reason: str) -> None:
        if not self._is_told:
            self._is_told = True
            tell(logger, FETCHER_DISCONNECTED, leader=self._leader, reason=reason)
        self._failures += 1
        wait_ms = min(RECONNECT_WAIT_MS_MIN << min(self._failures, 10), RECONNECT_WAIT_MS_MAX)
        hurried = asyncio.ensure_future(self._hurry.wait())
        try:
            # Not by `wait_for`: before Python 3.12 it loses a cancellation that comes with the end.
            await asyncio.wait([hurried], timeout=wait_ms / 1000)
        finally:
            hurried.cancel()

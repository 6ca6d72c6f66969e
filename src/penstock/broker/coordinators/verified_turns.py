"""Batches of a producer are appended in the order in which they came, also while some are verified.

A client has several batches in flight. The first of them open the transaction in a partition, once
its coordinator has been asked; one that comes when it is open would be appended at once, before
those that came earlier and are about to be. They would be out of order for good.

A turn ends with its connection at the latest. When one request of a connection fails, the tasks of
all others are cancelled, and a task that is cancelled before its first step runs nothing of its
coroutine, not even a `finally`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.model.identity import ProducerId


class Turn:
    """`earlier` is done when nothing of the producer that came before is still to be appended.
    It is taken in the task of the connection. `release` is called when it ends.
    """

    __slots__ = ("_connection", "_ended", "_producer_id", "_release", "_turns", "earlier")

    def __init__(
        self, turns: "VerifiedTurns", producer_id: ProducerId, *, release: Callable[[], None]
    ) -> None:
        self._turns = turns
        self._producer_id = producer_id
        self._release = release
        self.earlier: asyncio.Future[None] | None = turns.last.get(producer_id)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.last[producer_id] = self._ended
        connection = asyncio.current_task()
        assert connection is not None, "a turn belongs to a connection"
        self._connection: asyncio.Task[Any] = connection
        connection.add_done_callback(self._connection_ended)

    async def has_come(self, *, wait_ms: int) -> bool:
        """Waits for those before it, for so long."""
        if self.earlier is None:
            return True
        try:
            async with asyncio.timeout(max(wait_ms, 0) / 1000):
                await asyncio.shield(self.earlier)
        except TimeoutError:
            return False
        return True

    def end(self) -> None:
        """What it was taken for is appended, or never will be."""
        self._connection.remove_done_callback(self._connection_ended)
        self._release()
        self._ended.set_result(None)
        last = self._turns.last
        if last.get(self._producer_id) is self._ended:
            del last[self._producer_id]

    def _connection_ended(self, _connection: asyncio.Task[Any]) -> None:
        if not self._ended.done():  # it may have ended since this was asked of the loop
            self.end()


class VerifiedTurns:
    """One per broker: the last turn of each producer that waits, by its end."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: dict[ProducerId, asyncio.Future[None]] = {}

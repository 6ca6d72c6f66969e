"""Batches of a producer are appended in the order in which they came, also while some are verified.

A client has several batches in flight. The first of them open the transaction in a partition, once
its coordinator has been asked; one that comes when it is open would be appended at once, before
those that came earlier and are about to be. They would be out of order for good.
"""

import asyncio

from penstock.model.identity import ProducerId


class Turn:
    """`earlier` is done when nothing of the producer that came before is still to be appended."""

    __slots__ = ("_ended", "_producer_id", "_turns", "earlier")

    def __init__(self, turns: "VerifiedTurns", producer_id: ProducerId) -> None:
        self._turns = turns
        self._producer_id = producer_id
        self.earlier: asyncio.Future[None] | None = turns.last.get(producer_id)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.last[producer_id] = self._ended

    def end(self) -> None:
        """What it was taken for is appended, or never will be."""
        self._ended.set_result(None)
        last = self._turns.last
        if last.get(self._producer_id) is self._ended:
            del last[self._producer_id]


class VerifiedTurns:
    """One per broker: the last turn of each producer that waits, by its end."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: dict[ProducerId, asyncio.Future[None]] = {}

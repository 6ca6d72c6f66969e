"""Producer ids for this broker's clients, taken from blocks that the controller hands out.

An id is given once, ever: what is left of a block when the node stops is lost, on purpose.
"""

import asyncio
from collections.abc import Callable

from penstock.broker.controller.controller_link import ControllerLink
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerId
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


class ProducerIds:
    """`broker_epoch` is asked for with each block, as a broker may register anew."""

    def __init__(
        self,
        *,
        controller: ControllerLink,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._refilling = asyncio.Lock()

    async def next(self) -> ProducerId:
        """A fresh id. RequestError as from `refill`."""
        while (fresh := self.take()) is None:
            await self.refill()
        return fresh

    def take(self) -> ProducerId | None:
        """A fresh id of the block at hand; None when it is used up: `refill`, then take again."""
        if self._next == self._end:
            return None
        fresh = ProducerId(self._next)
        self._next += 1
        return fresh

    async def refill(self) -> None:
        """Gets a block if there is none. RequestError when the controller gives none; with an error
        that every producer tries again after, unlike the controller's own.
        """
        async with self._refilling:
            # Another one may have fetched a block while this one waited for the lock.
            if self._next != self._end:
                return
            try:
                block = await self._controller.ask(self._request())
            except RequestError as error:
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error
            self._refill(block)

    def _request(self) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )

    def _refill(self, block: AllocateProducerIdsResponse) -> None:
        first, count = block.producer_id_start, block.producer_id_len
        assert first >= self._end, "blocks only grow"
        assert count > 0
        self._next, self._end = first, first + count

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

# Those who wait hold up what else comes on their connections. A controller that is there answers
# within milliseconds, and a connection to it that has fallen silent is not noticed any sooner.
BLOCK_WAIT_MS_MAX = 2_000


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
        # Done when the block that is being asked for is here, or with the reason why it is not.
        self._refilling: asyncio.Future[RequestError | None] | None = None

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
        """Gets a block if there is none. RequestError when the controller gives none in time; with
        an error that every producer tries again after, unlike the controller's own. All who wait
        share one request: without a controller nobody waits for the time-outs of others.
        """
        while self._next == self._end:
            if self._refilling is None:
                return await self._ask_for_block()
            refusal = await asyncio.shield(self._refilling)
            if refusal is not None:
                raise RequestError(refusal.code, refusal.message)

    async def _ask_for_block(self) -> None:
        tried = self._refilling = asyncio.get_running_loop().create_future()
        refusal: RequestError | None = None
        try:
            self._refill(await self._controller.ask(self._request(), wait_ms_max=BLOCK_WAIT_MS_MAX))
        except RequestError as error:
            refusal = RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message)
            raise refusal from error
        finally:
            self._refilling = None
            tried.set_result(refusal)  # whoever asked may have gone: then another one does

    def _request(self) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )

    def _refill(self, block: AllocateProducerIdsResponse) -> None:
        first, count = block.producer_id_start, block.producer_id_len
        assert first >= self._end, "blocks only grow"
        assert count > 0
        self._next, self._end = first, first + count

"""Questions about transactions whose coordinator is on another node (KIP-890).

What gathers while a request to a node is outstanding goes out in the next one
(`transactions/enlist_queue`). A question whose coordinator has moved goes to the other node at
once: the former one may not answer for long. The transaction of a question that is not answered in
time may have got its partitions nevertheless: its producer asks again, which changes nothing then.

A connection that has been cut without a word is noticed after REPLY_WAIT_MS_MAX. From then until
the node answers again, one question at a time tries to reach it, for CONNECT_WAIT_MS_MAX; all
others are refused at once, and their producers send their batches again.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from penstock.broker.controller.links import Lane, Links
from penstock.client.network.errors import ClientError, TimedOut, error_code
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicPartition
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.transactions.enlist_queue import EnlistQueue
from penstock.wire.messages.add_partitions_to_txn import (
    NO_COORDINATOR_EPOCH,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from penstock.world.tasks import TaskGroup

REPLY_WAIT_MS_MAX = 6_000  # longer than the coordinator waits for its journal
CONNECT_WAIT_MS_MAX = 2_000
TOO_MANY = "too many questions wait"
SILENT = "the coordinator's node does not answer"

Asker = asyncio.Future[Enlisted]


class VerificationRequests:
    """`ask` returns the future of an answer; `run` sends. `coordinator_of` says which other node
    coordinates a transactional id: None when none does.
    """

    def __init__(self, links: Links, coordinator_of: Callable[[str], NodeId | None]) -> None:
        self._links = links
        self._coordinator_of = coordinator_of
        self._queues: dict[NodeId, EnlistQueue[Asker]] = {}
        self._changed = asyncio.Event()

    def ask(self, node_id: NodeId, enlist: Enlist) -> Asker:
        """RequestError, now or later, when there is no answer."""
        asker: Asker = asyncio.get_running_loop().create_future()
        refusal = self._add(node_id, enlist, asker)
        if refusal is not None:
            raise refusal
        return asker

    def coordinators_moved(self) -> None:
        """The metadata has changed: what other nodes are to be asked now goes to them."""
        for node_id, queue in list(self._queues.items()):
            for enlist, asker in queue.take_moved(partial(self._is_at, node_id)):
                now = self._coordinator_of(enlist.transactional_id)
                if now is None:
                    _refuse(asker, RequestError(ErrorCode.NOT_COORDINATOR, "it has moved"))
                elif not asker.done() and (refusal := self._add(now, enlist, asker)):
                    _refuse(asker, refusal)

    async def run(self) -> None:
        """Sends until cancelled; then whoever still waits is refused."""
        try:
            async with TaskGroup() as tasks:
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    for node_id, queue in self._queues.items():
                        request = queue.take()
                        if request is not None:
                            tasks.start(self._send(node_id, queue, request))
        finally:
            stopped = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the node stops")
            for queue in self._queues.values():
                for _, asker in (*queue.settled(), *queue.waiting):
                    _refuse(asker, stopped)
            self._queues.clear()

    def _is_at(self, node_id: NodeId, transactional_id: str) -> bool:
        return self._coordinator_of(transactional_id) == node_id

    def _add(self, node_id: NodeId, enlist: Enlist, asker: Asker) -> RequestError | None:
        """Why it is refused; None when it waits for its answer."""
        queue = self._queues.get(node_id)
        if queue is None:
            queue = self._queues[node_id] = EnlistQueue(waiting=[])
        if queue.add(enlist, asker):
            self._changed.set()
            return None
        if queue.is_silent:
            return RequestError(ErrorCode.NETWORK_EXCEPTION, SILENT)
        return RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, TOO_MANY)

    async def _send(
        self, node_id: NodeId, queue: EnlistQueue[Asker], request: AddPartitionsToTxnRequest
    ) -> None:
        try:
            reply = await self._links.ask(
                node_id,
                request,
                AddPartitionsToTxnResponse,
                lane=Lane.VERIFICATION,
                timeout_ms=REPLY_WAIT_MS_MAX,
                connect_timeout_ms=CONNECT_WAIT_MS_MAX,
            )
        except ClientError as error:
            refusal = RequestError(ErrorCode.NETWORK_EXCEPTION, str(error))
            for _, asker in queue.timed_out() if _is_late(error) else queue.settled():
                _refuse(asker, refusal)
        else:
            if reply.error_code != ErrorCode.NONE:
                refusal = RequestError(error_code(reply.error_code))
                queue.is_silent = False
                for _, asker in queue.settled():
                    _refuse(asker, refusal)
            else:
                for asker, answer in queue.answered(answers_in(reply)):
                    if not asker.done():  # its client may have gone
                        asker.set_result(answer)
        self._changed.set()


def answers_in(reply: AddPartitionsToTxnResponse) -> dict[str, Enlisted]:
    return {
        result.transactional_id: Enlisted(
            errors={
                TopicPartition(topic.name, one.partition_index): error_code(
                    one.partition_error_code
                )
                for topic in result.topic_results
                for one in topic.results_by_partition
            },
            error=ErrorCode.NONE,
            coordinator_epoch=(
                None
                if result.coordinator_epoch == NO_COORDINATOR_EPOCH
                else result.coordinator_epoch
            ),
        )
        for result in reply.results_by_transaction
    }


def _is_late(error: ClientError) -> bool:
    """Whether the node said nothing at all, neither to the request nor to a new connection."""
    return isinstance(error, TimedOut) or isinstance(error.__cause__, TimeoutError)


def _refuse(asker: Asker, refusal: RequestError) -> None:
    if not asker.done():
        asker.set_exception(refusal)

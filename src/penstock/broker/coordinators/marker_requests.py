"""Markers of partitions that other nodes lead: requests to these nodes.

`transactions/marker_queue` decides what is sent when; here it is sent. A reply that is late closes
the connection (`Links`), and the markers go out again on a new one. Each request has a number, so
that the receiver does nothing for one that a later one has replaced.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from penstock.broker.controller.links import Lane, Links
from penstock.client.network.errors import ClientError, error_code
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerId, TopicPartition
from penstock.transactions.marker_queue import (
    Leader,
    MarkerKey,
    MarkerQueue,
    QueuedMarker,
    Route,
    SentMarker,
    Unled,
)
from penstock.transactions.markers import SendMarkers
from penstock.wire.messages.write_txn_markers import (
    MarkerSender,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

REPLY_WAIT_MS_MAX = 10_000  # longer than the receiver waits for the commit of the markers
NO_BROKER_EPOCH = -1

Owner = TypeVar("Owner")


class MarkerRequests(Generic[Owner]):
    """`finished` and `returned` are called for each marker that needs no further request: it is
    written or its partition is gone, or this node leads the partition now. `refused` for each
    error that lasts: in the moments after a leader has moved, others are to be expected.
    """

    def __init__(
        self,
        *,
        links: Links,
        node_id: NodeId,
        clock: Clock,
        is_wanted: Callable[[Owner], bool],
        finished: Callable[[Owner, TopicPartition], None],
        returned: Callable[[Owner, TopicPartition], None],
        refused: Callable[[Owner, TopicPartition, ErrorCode], None],
    ) -> None:
        self._links = links
        self._node_id = node_id
        self._clock = clock
        self._finished = finished
        self._returned = returned
        self._refused = refused
        self._image = Image()
        self._queue: MarkerQueue[Owner] = MarkerQueue(
            node_id=node_id, route=self._route, is_wanted=is_wanted
        )
        self._requests_sent = 0
        self._changed = asyncio.Event()

    def takes(self, name: TopicPartition) -> bool:
        """Whether the partition is there and this node does not lead it."""
        route = self._route(name)
        return route is not Unled.DELETED and not self._is_here(route)

    def check(self) -> None:
        self._queue.check()

    def add(self, owner: Owner, markers: SendMarkers, name: TopicPartition) -> None:
        self._queue.add(QueuedMarker(owner=owner, markers=markers, partition=name))
        self._changed.set()

    def apply(self, delta: Delta, image: Image) -> None:
        """Follows a change of the metadata: leaders may have moved, topics may be gone."""
        self._image = image
        changed = (*delta.topics_deleted, *delta.topics_created, *delta.topics_changed)
        if changed and len(self._queue) > 0:
            self._queue.leaders_changed({topic.name for topic in changed})
            self._queue.forget_unwanted()
        for node_id in delta.brokers_changed:
            self._queue.node_changed(node_id)
        self._changed.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        async with TaskGroup() as tasks:
            while True:
                self._changed.clear()
                self._queue.resume(now_ms=self._clock.monotonic_ms())
                for node_id, sent in self._queue.take().items():
                    tasks.start(self._send(node_id, sent), name=f"markers to node {node_id}")
                self._hand_back()
                await self._wait()

    async def _wait(self) -> None:
        next_ms = self._queue.next_ms()
        wait_ms = None if next_ms is None else max(next_ms - self._clock.monotonic_ms(), 1)
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _send(self, node_id: NodeId, sent: Sequence[SentMarker[Owner]]) -> None:
        self._requests_sent += 1
        us = self._image.brokers.get(self._node_id)
        sender = MarkerSender(
            node_id=self._node_id,
            broker_epoch=NO_BROKER_EPOCH if us is None else us.epoch,
            request_number=self._requests_sent,
        )
        try:
            reply = await self._links.ask(
                node_id,
                request_of(sent, sender),
                WriteTxnMarkersResponse,
                lane=Lane.MARKERS,
                timeout_ms=REPLY_WAIT_MS_MAX,
            )
        except ClientError as error:
            if self._queue.failed(node_id, now_ms=self._clock.monotonic_ms()):
                logger.warning("markers node_id=%d sent=false count=%d reason=%s",
                               node_id, len(sent), error)  # fmt: skip
        else:
            now_ms = self._clock.monotonic_ms()
            for queued, code, lasts in self._queue.answered(
                node_id, codes_of(reply), now_ms=now_ms
            ):
                if lasts:
                    self._refused(queued.owner, queued.partition, code)
        self._changed.set()

    def _hand_back(self) -> None:
        queue = self._queue
        finished, queue.finished = queue.finished, []
        for queued in finished:
            self._finished(queued.owner, queued.partition)
        returned, queue.returned = queue.returned, []
        for queued in returned:
            self._returned(queued.owner, queued.partition)

    def _route(self, name: TopicPartition) -> Route:
        """As this node's image says now."""
        topic = self._image.topics_by_name.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return Unled.DELETED
        partition = topic.partitions[name.partition]
        if partition.leader is None:
            return Unled.NO_LEADER
        return Leader(partition.leader, partition.leader_epoch)

    def _is_here(self, route: Route) -> bool:
        return isinstance(route, Leader) and route.node_id == self._node_id


def request_of(sent: Sequence[SentMarker[Owner]], sender: MarkerSender) -> WriteTxnMarkersRequest:
    """The markers of one decision stand together, and so do the partitions of one topic."""
    markers: dict[tuple[int, int, int], WritableTxnMarker] = {}
    topics: dict[tuple[int, int, int, str], WritableTxnMarkerTopic] = {}
    for queued, leader_epoch in sent:
        decided, name = queued.markers, queued.partition
        key = (decided.producer_id, decided.producer_epoch, decided.coordinator_epoch)
        if key not in markers:
            markers[key] = WritableTxnMarker(
                producer_id=decided.producer_id,
                producer_epoch=decided.producer_epoch,
                transaction_result=decided.commit,
                coordinator_epoch=decided.coordinator_epoch,
                transaction_version=decided.transaction_version,
            )
        topic = topics.get((*key, name.topic))
        if topic is None:
            topic = topics[(*key, name.topic)] = WritableTxnMarkerTopic(name=name.topic)
            markers[key].topics.append(topic)
        topic.partition_indexes.append(name.partition)
        topic.leader_epochs.append(leader_epoch)
    return WriteTxnMarkersRequest(markers=list(markers.values()), sender=sender)


def codes_of(reply: WriteTxnMarkersResponse) -> dict[MarkerKey, ErrorCode]:
    codes = {}
    for marker in reply.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                name = TopicPartition(topic.name, result.partition_index)
                code = error_code(result.error_code)
                codes[MarkerKey(ProducerId(marker.producer_id), name)] = code
    return codes

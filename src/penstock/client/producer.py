"""An idempotent producer: records in, futures of their places out.

The rules are elsewhere and know no tasks: `accumulator` (batches, memory, linger),
`partition_queue` (order, sequence numbers, retries), `partitioner`. Here is the shell: one task
looks what may be sent and sends it, answers come back as callbacks. A step of that task
(`_send_ready`) has no `await`, so what it saw is still true when it acts.

Up to five requests are in flight to each broker. What can be tried again is, until the delivery
deadline, without reordering and without duplicates as long as it is idempotent, which it is
unless acks are not "all".
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from types import TracebackType
from typing import Self

from penstock.client.accumulator import Accumulator, BatchRules
from penstock.client.channel import Channel
from penstock.client.cluster import Cluster, Lane
from penstock.client.errands import Errands
from penstock.client.partitioner import Partitioner, Sticky
from penstock.client.pending_batch import Delivered, PendingBatch
from penstock.client.produce_request import Appended, outcome, produce_request, version_bound
from penstock.client.trouble import (
    RETRIABLE,
    STALE_METADATA,
    BufferFull,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    error_code,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.limit import REMEMBERED_BATCHES
from penstock.records.build import record_bytes_max
from penstock.records.record import Headers, Record
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.produce import ProduceRequest, ProduceResponse

REQUESTS_IN_FLIGHT_MAX = REMEMBERED_BATCHES  # for each broker: as many as a broker can tell apart
Delivery = asyncio.Future[Delivered]


class Acks(IntEnum):
    """How many replicas must have a record before its delivery is told."""

    ALL = -1
    NONE = 0
    LEADER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRules:
    acks: Acks = Acks.ALL
    batches: BatchRules = field(default_factory=BatchRules)
    block_ms_max: int = 60_000  # how long `send` may wait for metadata and for room
    request_ms_max: int = 30_000

    def __post_init__(self) -> None:
        assert self.acks is Acks.ALL or not self.batches.idempotent, "idempotence needs acks=all"


class Producer:
    """Use as `async with Producer(cluster) as producer`: leaving it delivers what was sent."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        rules: ProducerRules | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self.cluster = cluster
        self.rules = rules or ProducerRules()
        self.partitioner: Partitioner = partitioner or Sticky()
        self.producer_id: int | None = None
        self._accumulator = Accumulator(self.rules.batches)
        self._channels: dict[NodeId, Channel] = {}
        self._errands = Errands(
            cluster.tasks, done=self._look_again, backoff_ms=cluster.rules.backoff_ms
        )
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._flushers = 0
        self._closing = False
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sender = self.cluster.tasks.start(self._run(), name="producer")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            self._closing = True
            self._errands.close()
            self._accumulator.abandon(ClientError("the producer was closed"))
            self._look_again()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Takes a record in and returns its delivery, to be awaited or not.

        Waits, within `block_ms_max`, for what it needs to know of the topic and for room in the
        buffer.
        """
        assert not self._closing, "the producer was closed"
        count = await self._partition_count(topic)
        if partition is not None and not 0 <= partition < count:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic}-{partition}",
                f"the topic has partitions 0 to {count - 1}",
            )
        size_bytes = record_bytes_max(key, value, headers)
        if not self._accumulator.has_room(size_bytes):
            await self._wait_for_room(size_bytes)
        now_ms = self.cluster.clock.now_ms() if timestamp_ms is None else timestamp_ms
        place = TopicPartition(topic, self._choose(topic, key, value, partition, count, size_bytes))
        delivery: Delivery = asyncio.get_running_loop().create_future()
        opened = self._accumulator.append(
            place,
            Record(key, value, headers, now_ms),
            delivery,
            now_ms=self.cluster.clock.monotonic_ms(),
        )
        if opened:
            # The batch before it is complete, and this one's linger begins. Whoever sends in a loop
            # finds room every time and never waits, so the sender gets its turn here.
            self._wake.set()
            await asyncio.sleep(0)
        return delivery

    async def flush(self) -> None:
        """Waits until everything sent so far is settled, one way or the other; sends half-full
        batches too.
        """
        self._flushers += 1
        self._accumulator.flushing = True
        self._wake.set()
        try:
            while not self._accumulator.is_empty:
                self._settled.clear()
                await self._settled.wait()
        finally:
            self._flushers -= 1
            self._accumulator.flushing = self._flushers > 0

    async def _partition_count(self, topic: str) -> int:
        view = self.cluster.view
        if topic not in view.topics:
            view = await self.cluster.need((topic,), wait_ms=self.rules.block_ms_max)
        return len(view.topics[topic].partitions)

    async def _wait_for_room(self, size_bytes: int) -> None:
        try:
            async with asyncio.timeout(self.rules.block_ms_max / 1000):
                while not self._accumulator.has_room(size_bytes):
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError as trouble:
            raise BufferFull(
                f"no room for {size_bytes} bytes within {self.rules.block_ms_max} ms:"
                f" {self._accumulator.buffered_bytes} bytes wait to be delivered"
            ) from trouble

    def _choose(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        count: int,
        size_bytes: int,
    ) -> int:
        if partition is not None:
            return partition
        chosen = self.partitioner.choose(topic=topic, key=key, value=value, count=count)
        place = TopicPartition(topic, chosen)
        # Where its batch is complete, a record that belongs nowhere may begin one elsewhere.
        elsewhere = (
            key is None
            and self._accumulator.would_complete(place, size_bytes)
            and self.partitioner.batch_closed(topic, chosen)
        )
        if elsewhere:
            return self.partitioner.choose(topic=topic, key=key, value=value, count=count)
        return chosen

    async def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            now_ms = self.cluster.clock.monotonic_ms()
            self._accumulator.expire(now_ms)
            self._send_ready(now_ms)
            self._settled.set()
            deadline_ms = self._accumulator.next_deadline_ms()
            # A deadline that has passed is one that must wait for an answer; then look again in a
            # while.
            wait_ms = None if deadline_ms is None else deadline_ms - now_ms
            if wait_ms is not None and wait_ms <= 0:
                wait_ms = self.cluster.rules.backoff_ms
            await _wait(self._wake, wait_ms)

    def _send_ready(self, now_ms: int) -> None:
        """Sends all that may be sent now. Without an `await`: what it looked at can't change
        under it.
        """
        if self.rules.batches.idempotent and self.producer_id is None:
            if not self._accumulator.is_empty:
                self._errands.run("producer: id", self._ask_producer_id)
            return
        nodes: dict[NodeId, None] = {}
        for partition in self._accumulator.ready_partitions(now_ms):
            leader = self.cluster.view.leader_of(partition)
            if leader is None:
                self._errands.run("producer: metadata", self._refresh)
            else:
                nodes[leader] = None
        for node in nodes:
            channel = self._channels.get(node)
            if channel is None or not channel.is_open:
                self._errands.run(f"producer: node {node}", partial(self._connect, node))
                continue
            while channel.in_flight < REQUESTS_IN_FLIGHT_MAX:
                batches = self._accumulator.drain(self.cluster.view.leader_of, node, now_ms)
                if not batches:
                    break
                self._post(channel, batches)

    def _post(self, channel: Channel, batches: list[PendingBatch]) -> None:
        view = self.cluster.view
        request = produce_request(
            batches,
            view,
            producer_id=self.producer_id,
            acks=self.rules.acks,
            timeout_ms=self.rules.request_ms_max,
        )
        version = channel.version_for(ProduceRequest, at_most=version_bound(request, view))
        for batch in batches:
            self.partitioner.batch_closed(batch.partition.topic, batch.partition.partition)
        if self.rules.acks is Acks.NONE:
            channel.post_unanswered(request, version=version)
            for batch in batches:
                self._accumulator.acked(batch, None, None)
            return
        answer = channel.post(request, ProduceResponse, version=version)
        late = TimedOut(f"{channel.address}: no answer within {self.rules.request_ms_max} ms")
        timer = asyncio.get_running_loop().call_later(
            self.rules.request_ms_max / 1000, channel.close, late
        )
        answer.add_done_callback(lambda _: timer.cancel())
        answer.add_done_callback(partial(self._answered, batches))

    def _answered(
        self, batches: list[PendingBatch], answer: asyncio.Future[ProduceResponse]
    ) -> None:
        trouble = ConnectionLost("cancelled") if answer.cancelled() else answer.exception()
        if self._closing:
            return
        results: Sequence[Appended | ClientError]
        if trouble is None:
            results = outcome(answer.result(), batches, self.cluster.view)
        else:
            assert isinstance(trouble, ClientError), trouble
            results = [trouble] * len(batches)
        now_ms = self.cluster.clock.monotonic_ms()
        for batch, result in zip(batches, results, strict=True):
            if isinstance(result, Appended):
                self._accumulator.acked(batch, result.base_offset, result.append_time_ms)
                continue
            self._accumulator.failed(batch, result, now_ms=now_ms)
            if not isinstance(result, Refused) or result.code in STALE_METADATA:
                self._errands.run("producer: metadata", self._refresh)
        self._look_again()

    def _look_again(self) -> None:
        self._wake.set()
        self._settled.set()

    async def _refresh(self) -> None:
        view = await self.cluster.refresh(self._accumulator.topics)
        ready = self._accumulator.ready_partitions(self.cluster.clock.monotonic_ms())
        if any(view.leader_of(partition) is None for partition in ready):
            # Asked again at once, the broker would say the same.
            await asyncio.sleep(self.cluster.rules.backoff_ms / 1000)

    async def _connect(self, node: NodeId) -> None:
        try:
            self._channels[node] = await self.cluster.channel(node, Lane.PRODUCE)
        except ClientError:
            # Perhaps another node leads by now.
            self._errands.run("producer: metadata", self._refresh)
            raise

    async def _ask_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        reply = await self.cluster.ask_any(request, InitProducerIdResponse)
        code = error_code(reply.error_code)
        if code == ErrorCode.NONE:
            self.producer_id = reply.producer_id
            return
        refused = Refused(code, "producer id")
        if code not in RETRIABLE:
            self._accumulator.abandon(refused)
        raise refused


async def _wait(event: asyncio.Event, timeout_ms: int | None) -> None:
    """Until the event or the time; which of them it was does not matter."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await event.wait()

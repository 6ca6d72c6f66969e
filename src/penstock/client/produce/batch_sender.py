"""Gets the batches of one producer to the leaders of their partitions.

The rules are elsewhere and know no tasks: `accumulator` (batches, memory, linger),
`partition_queue` (order, sequence numbers, retries), `partitioner`. Here is the shell: one task
looks what may be sent and sends it, answers come back as callbacks. A step of that task
(`_send_ready`) has no `await`, so what it saw is still true when it acts.

All that it holds is written as one `Writer`. Whoever becomes another one (`write_as`) begins with
an empty accumulator; what is answered later on concerns nobody any more.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

from penstock.client.network.background_tasks import BackgroundTasks
from penstock.client.network.channel import Channel
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import (
    STALE_METADATA,
    BufferFull,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
)
from penstock.client.network.routing import led_elsewhere
from penstock.client.produce.accumulator import Accumulator, BatchRules
from penstock.client.produce.partitioner import Partitioner
from penstock.client.produce.pending_batch import Delivered, PendingBatch
from penstock.client.produce.produce_request import (
    Appended,
    Writer,
    named_leaders,
    outcome,
    produce_request,
    version_bound,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.limit import REMEMBERED_BATCHES
from penstock.records.record import Record
from penstock.wire.messages.produce import ProduceRequest, ProduceResponse

REQUESTS_IN_FLIGHT_MAX = REMEMBERED_BATCHES  # for each broker: as many as a broker can tell apart
NO_ACKS = 0
Delivery = asyncio.Future[Delivered]
Answer = asyncio.Future[ProduceResponse] | asyncio.Future[None]  # None: sent, and that is all


class BatchSender:
    """`identify` finds out who writes, when there is something to write and nobody to write it;
    `given_up` is told of the first batch that was not delivered.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        batches: BatchRules,
        partitioner: Partitioner,
        acks: int,
        block_ms_max: int,
        request_ms_max: int,
        identify: Callable[[], Coroutine[None, None, None]] | None = None,
        given_up: Callable[[ClientError], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.writer: Writer | None = None
        self._rules = batches
        self._partitioner = partitioner
        self._acks = acks
        self._block_ms_max = block_ms_max
        self._request_ms_max = request_ms_max
        self._identify = identify
        self._given_up = given_up
        self._accumulator = Accumulator(batches)
        self._channels: dict[NodeId, Channel] = {}
        self._background_tasks = BackgroundTasks(
            cluster.tasks, done=self._look_again, backoff_ms=cluster.rules.backoff_ms
        )
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._flushers = 0
        self._unanswered = 0  # requests
        self._closing = False

    @property
    def closed(self) -> bool:
        return self._closing

    def start(self) -> None:
        self.cluster.tasks.start(self._run(), name="producer")

    def close(self) -> None:
        self._closing = True
        self._background_tasks.close()
        self._accumulator.abandon(ClientError("the producer was closed"))
        self._look_again()

    def write_as(self, writer: Writer) -> None:
        """From now on batches are this writer's, each partition's numbered from 0 in its epoch."""
        if self.writer is None or self.writer.identity != writer.identity:
            # What came before there was a writer is this one's.
            self._accumulator.begin_epoch(writer.identity.epoch)
        self.writer = writer

    def abandon(self, error: ClientError) -> None:
        """Fails all that is still on its way, for this reason."""
        self._accumulator.abandon(error)
        # Answers that still come find another accumulator, and concern nobody.
        self._accumulator = Accumulator(self._rules)
        self._look_again()

    async def answered(self) -> None:
        """Waits until no request is under way; none is waited for longer than `request_ms_max`."""
        while self._unanswered:
            self._settled.clear()
            await self._settled.wait()

    async def place(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        size_bytes: int,
    ) -> TopicPartition:
        """The partition that a record belongs to; there is room for it, within `block_ms_max`.

        Refused when the topic does not have the partition that was wished for.
        """
        count = await self._partition_count(topic)
        if partition is not None and not 0 <= partition < count:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic}-{partition}",
                f"the topic has partitions 0 to {count - 1}",
            )
        if not self._accumulator.has_room(size_bytes):
            await self._wait_for_room(size_bytes)
        if partition is not None:
            return TopicPartition(topic, partition)
        return TopicPartition(topic, self._choose(topic, key, value, count, size_bytes))

    def append(self, place: TopicPartition, record: Record, delivery: Delivery) -> bool:
        """Takes a record in, for which there is room; true when it opened a batch: whoever sends
        in a loop then lets the sender have its turn.
        """
        now_ms = self.cluster.clock.monotonic_ms()
        opened = self._accumulator.append(place, record, delivery, now_ms=now_ms)
        if opened:
            # The batch before it is complete, and this one's linger begins.
            self._wake.set()
        return opened

    def append_ready(self, place: TopicPartition, data: bytearray, delivery: Delivery) -> None:
        """Takes in a batch that was built elsewhere, for which there is room."""
        now_ms = self.cluster.clock.monotonic_ms()
        self._accumulator.append_ready(place, data, delivery, now_ms=now_ms)
        self._wake.set()

    async def flush(self) -> None:
        """Waits until everything sent so far is settled, one way or the other; sends half-full
        batches too.
        """
        # What is abandoned meanwhile has left this accumulator, and others send on.
        accumulator, opened_count = self._accumulator, self._accumulator.opened_count
        self._flushers += 1
        self._wake.set()
        try:
            while not accumulator.has_left(opened_count):
                self._settled.clear()
                await self._settled.wait()
        finally:
            self._flushers -= 1

    async def _partition_count(self, topic: str) -> int:
        view = self.cluster.view
        if topic not in view.topics:
            view = await self.cluster.need((topic,), wait_ms=self._block_ms_max)
        return len(view.topics[topic].partitions)

    async def _wait_for_room(self, size_bytes: int) -> None:
        try:
            async with asyncio.timeout(self._block_ms_max / 1000):
                while not self._accumulator.has_room(size_bytes):
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError as error:
            raise BufferFull(
                f"no room for {size_bytes} bytes within {self._block_ms_max} ms:"
                f" {self._accumulator.buffered_bytes} bytes wait to be delivered"
            ) from error

    def _choose(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, size_bytes: int
    ) -> int:
        chosen = self._partitioner.choose(topic=topic, key=key, value=value, count=count)
        place = TopicPartition(topic, chosen)
        # Where its batch is complete, a record that belongs nowhere may begin one elsewhere.
        elsewhere = (
            key is None
            and self._accumulator.would_complete(place, size_bytes)
            and self._partitioner.batch_closed(topic, chosen)
        )
        if elsewhere:
            return self._partitioner.choose(topic=topic, key=key, value=value, count=count)
        return chosen

    async def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            now_ms = self.cluster.clock.monotonic_ms()
            self._accumulator.flushing = self._flushers > 0
            self._accumulator.expire(now_ms)
            self._report_given_up()
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
        if self.cluster.view_is_old and not self._accumulator.is_empty:
            self._background_tasks.run("producer: metadata", self._refresh)
        if self._identify is not None and self._accumulator.needs_another_id:
            self.writer = None
        if self.writer is None and self._rules.idempotent:
            if not self._accumulator.is_empty:
                assert self._identify is not None, "nobody to write as"
                self._background_tasks.run("producer: id", self._identify)
            return
        nodes: dict[NodeId, None] = {}
        for partition in self._accumulator.ready_partitions(now_ms):
            leader = self.cluster.view.leader_of(partition)
            if leader is None:
                self._background_tasks.run("producer: metadata", self._refresh)
            else:
                nodes[leader] = None
        for node in nodes:
            channel = self._channels.get(node)
            if channel is None or not channel.is_open:
                self._background_tasks.run(f"producer: node {node}", partial(self._connect, node))
                continue
            while channel.in_flight < REQUESTS_IN_FLIGHT_MAX:
                batches = self._accumulator.drain(self.cluster.view.leader_of, node, now_ms)
                if not batches:
                    break
                self._post(channel, batches)

    def _post(self, channel: Channel, batches: list[PendingBatch]) -> None:
        view = self.cluster.view
        request = produce_request(
            batches, view, writer=self.writer, acks=self._acks, timeout_ms=self._request_ms_max
        )
        bound = version_bound(request, view, self.writer)
        version = channel.version_for(ProduceRequest, at_most=bound)
        for batch in batches:
            self._partitioner.batch_closed(batch.partition.topic, batch.partition.partition)
        answer: Answer
        if self._acks == NO_ACKS:
            answer = channel.post_unanswered(request, version=version)
            late = TimedOut(f"{channel.address}: not sent within {self._request_ms_max} ms")
        else:
            answer = channel.post(request, ProduceResponse, version=version)
            late = TimedOut(f"{channel.address}: no answer within {self._request_ms_max} ms")
        timer = asyncio.get_running_loop().call_later(
            self._request_ms_max / 1000, channel.close, late
        )
        self._unanswered += 1
        answer.add_done_callback(lambda _: timer.cancel())
        answer.add_done_callback(partial(self._answered, self._accumulator, batches))

    def _answered(
        self,
        accumulator: Accumulator,
        batches: list[PendingBatch],
        answer: Answer,
    ) -> None:
        self._unanswered -= 1
        error = ConnectionLost("cancelled") if answer.cancelled() else answer.exception()
        if self._closing:
            return
        if accumulator is not self._accumulator:
            self._look_again()
            return
        results: Sequence[Appended | ClientError]
        before = view = self.cluster.view
        if error is not None:
            assert isinstance(error, ClientError), error
            results = [error] * len(batches)
        elif (reply := answer.result()) is None:
            results = [Appended(base_offset=None, append_time_ms=None)] * len(batches)
        else:
            results = outcome(reply, batches, view)
            if reply.node_endpoints:
                view = self.cluster.view = led_elsewhere(view, named_leaders(reply, view))
        now_ms = self.cluster.clock.monotonic_ms()
        for batch, result in zip(batches, results, strict=True):
            if isinstance(result, Appended):
                accumulator.acked(batch, result.base_offset, result.append_time_ms)
                continue
            has_moved = view.partition(batch.partition) != before.partition(batch.partition)
            accumulator.failed(batch, result, now_ms=now_ms, at_once=has_moved)
            if not has_moved and (not isinstance(result, Refused) or result.code in STALE_METADATA):
                self._background_tasks.run("producer: metadata", self._refresh)
        self._report_given_up()
        self._look_again()

    def _report_given_up(self) -> None:
        error = self._accumulator.given_up
        if error is not None and self._given_up is not None:
            self._given_up(error)

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
            self._background_tasks.run("producer: metadata", self._refresh)
            raise


class QuietDelivery(Delivery):
    """A delivery that nobody has to look at: the transaction's end tells what went wrong."""

    def set_exception(self, exception: type | BaseException, /) -> None:
        super().set_exception(exception)
        self.exception()


async def _wait(event: asyncio.Event, timeout_ms: int | None) -> None:
    """Until the event or the time; which of them it was does not matter."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await event.wait()

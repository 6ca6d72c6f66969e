"""Records of all partitions, gathered into batches and handed out by the node that leads each.

It knows neither sockets nor tasks: the producer asks what may be sent now (`drain`), when to ask
again (`next_deadline_ms`), and reports what became of each batch. Order and sequence numbers are
`partition_queue`'s; here are size, linger, memory and fairness.
"""

from collections.abc import Callable

from penstock.client.network.errors import ClientError, Refused
from penstock.client.produce.partition_queue import PartitionQueue
from penstock.client.produce.pending_batch import PendingBatch, Ticket, ready_batch, size_bytes_max
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import KIB, MIB
from penstock.model.offset import Offset
from penstock.records.compression import Codec
from penstock.records.record import Record

BACKOFF_DOUBLINGS_MAX = 6
MARKERS_MS = 20  # a transaction's markers are soon written, and the next one waits for them


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """When a batch is complete, how much may wait, and how long."""

    idempotent: bool = True
    codec: Codec = Codec.NONE
    codec_level: int | None = None
    linger_ms: int = 5
    batch_bytes_max: int = 64 * KIB  # one larger record has a batch to itself
    request_bytes_max: int = MIB
    buffer_bytes_max: int = 32 * MIB
    delivery_ms_max: int = 120_000
    backoff_ms: int = 100

    def __post_init__(self) -> None:
        assert self.linger_ms >= 0
        assert self.batch_bytes_max > 0
        assert self.buffer_bytes_max >= self.batch_bytes_max
        assert self.delivery_ms_max > 0


class Accumulator:
    def __init__(self, rules: BatchRules) -> None:
        self.rules = rules
        self.buffered_bytes = 0
        self.flushing = False  # send what there is, however little
        self.given_up: ClientError | None = None  # why the first batch was not delivered
        self.epoch = 0  # in which partitions begin to number their batches
        self.out_of_epochs = False  # nothing is numbered before the producer has another id
        self.opened_count = 0  # batches; each has its ordinal among them
        self._queues: dict[TopicPartition, PartitionQueue] = {}  # every partition ever written to
        self._busy: dict[TopicPartition, PartitionQueue] = {}  # those of them that hold batches
        self._turn = 0  # where the next drain begins, so that no partition starves

    @property
    def is_empty(self) -> bool:
        return not self._busy

    @property
    def needs_another_id(self) -> bool:
        """Whether a partition has used up the epochs of the producer id, and no batch is left that
        bears a number of that id.
        """
        return self.out_of_epochs and not any(q.has_numbered for q in self._busy.values())

    def has_left(self, count: int) -> bool:
        """Whether the first `count` batches that were opened are gone, each with all its parts."""
        oldest = (queue.oldest_ordinal for queue in self._busy.values())
        return all(ordinal is None or ordinal > count for ordinal in oldest)

    @property
    def topics(self) -> list[str]:
        """Topics that records wait for."""
        return list(dict.fromkeys(partition.topic for partition in self._busy))

    def has_room(self, size_bytes: int) -> bool:
        """A record larger than the whole buffer may pass when it is alone: the broker says
        whether it is too large.
        """
        return not self.buffered_bytes or (
            self.buffered_bytes + size_bytes <= self.rules.buffer_bytes_max
        )

    def next_deadline_ms(self) -> int | None:
        """When something may change without an event: a linger, a backoff or a delivery ends."""
        # Batches of a queue age in order, so the oldest on the wire and the oldest waiting tell
        # for all.
        deadlines: list[int] = []
        for queue in self._busy.values():
            deadlines.extend(b.deadline_ms for b in queue.on_wire if not b.settled)
            if queue.waiting:
                head = queue.waiting[0]
                linger_end_ms = head.created_ms + self.rules.linger_ms
                deadlines.append(min(head.deadline_ms, max(linger_end_ms, queue.retry_at_ms)))
        return min(deadlines, default=None)

    def would_complete(self, partition: TopicPartition, size_bytes: int) -> bool:
        """Whether there is a batch that a record would complete by not fitting into it."""
        queue = self._busy.get(partition)
        batch = None if queue is None else queue.filling()
        return batch is not None and batch.size_bytes + size_bytes > self.rules.batch_bytes_max

    def append(
        self, partition: TopicPartition, record: Record, ticket: Ticket, *, now_ms: int
    ) -> bool:
        """Takes a record in, for which there is room; true when it opened a batch."""
        size_bytes = size_bytes_max(record)
        assert self.has_room(size_bytes), (self.buffered_bytes, size_bytes)
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._new_queue(partition)
        self._busy[partition] = queue
        batch = queue.filling()
        opened = batch is None or batch.size_bytes + size_bytes > self.rules.batch_bytes_max
        if batch is None or opened:
            self.opened_count += 1
            batch = PendingBatch(
                partition=partition,
                created_ms=now_ms,
                deadline_ms=now_ms + self.rules.delivery_ms_max,
                ordinal=self.opened_count,
            )
            queue.waiting.append(batch)
        batch.add(record, ticket, size_bytes)
        self.buffered_bytes += size_bytes
        return opened

    def append_ready(
        self, partition: TopicPartition, data: bytearray, ticket: Ticket, *, now_ms: int
    ) -> None:
        """Takes in a batch that was built elsewhere, for which there is room."""
        assert self.has_room(len(data)), (self.buffered_bytes, len(data))
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._new_queue(partition)
        self._busy[partition] = queue
        self.opened_count += 1
        batch = ready_batch(
            partition,
            data,
            ticket,
            created_ms=now_ms,
            deadline_ms=now_ms + self.rules.delivery_ms_max,
            ordinal=self.opened_count,
        )
        queue.waiting.append(batch)
        self.buffered_bytes += batch.charged_bytes

    def begin_epoch(self, epoch: int) -> None:
        """Batches are numbered from 0 in this epoch; none has a number now."""
        self.epoch = epoch
        self.out_of_epochs = False
        self._queues = dict(self._busy)
        for queue in self._busy.values():
            queue.begin_epoch(epoch)

    def drain(
        self, leader_of: Callable[[TopicPartition], NodeId | None], node: NodeId, now_ms: int
    ) -> list[PendingBatch]:
        """The batches of the next request to a node: one of a partition, sealed, numbered, within
        the size.
        """
        taken: list[PendingBatch] = []
        size_bytes = 0
        for queue in self._in_turn():
            if not self._is_ready(queue, now_ms) or leader_of(queue.partition) != node:
                continue
            head = queue.waiting[0]
            head.seal(self.rules.codec, self.rules.codec_level)
            if taken and size_bytes + head.size_bytes > self.rules.request_bytes_max:
                break
            size_bytes += head.size_bytes
            taken.append(queue.take())
        self._turn += 1
        return taken

    def ready_partitions(self, now_ms: int) -> list[TopicPartition]:
        """Partitions with a batch that could leave now, if its leader is known and not busy."""
        return [q.partition for q in self._busy.values() if self._is_ready(q, now_ms)]

    def acked(self, batch: PendingBatch, base_offset: Offset | None, time_ms: int | None) -> None:
        queue = self._queues[batch.partition]
        queue.acked(batch, base_offset, time_ms)
        self._left(queue, batch)
        self._note(queue)

    def failed(
        self, batch: PendingBatch, error: ClientError, *, now_ms: int, at_once: bool = False
    ) -> None:
        """`at_once`: another broker is to get it, and there is nothing to wait for."""
        queue = self._queues[batch.partition]
        doublings = min(batch.attempts - 1, BACKOFF_DOUBLINGS_MAX)
        backoff_ms = self.rules.backoff_ms << doublings
        if isinstance(error, Refused) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            backoff_ms = min(backoff_ms, MARKERS_MS)
        if at_once:
            backoff_ms = 0
        queue.failed(batch, error, now_ms=now_ms, backoff_ms=backoff_ms)
        if batch.settled:
            self._left(queue, batch)
        self._note(queue)

    def expire(self, now_ms: int) -> None:
        """Gives up what was not delivered in time."""
        for queue in list(self._busy.values()):
            for batch in queue.expire(now_ms):
                self._left(queue, batch)
            self._note(queue)

    def abandon(self, error: ClientError) -> None:
        """Fails everything that is still on its way."""
        for queue in self._busy.values():
            queue.abandon(error)
        self._busy.clear()
        self.buffered_bytes = 0

    def check(self) -> None:
        charged = 0
        for queue in self._queues.values():
            queue.check()
            charged += sum(batch.charged_bytes for batch in queue.unsettled())
        assert charged == self.buffered_bytes, (charged, self.buffered_bytes)

    def _new_queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = PartitionQueue(partition, idempotent=self.rules.idempotent, epoch=self.epoch)
        self._queues[partition] = queue
        return queue

    def _in_turn(self) -> list[PartitionQueue]:
        queues = list(self._busy.values())
        start = self._turn % len(queues) if queues else 0
        return queues[start:] + queues[:start]

    def _is_ready(self, queue: PartitionQueue, now_ms: int) -> bool:
        if not queue.may_send(now_ms):
            return False
        head = queue.waiting[0]
        if self.out_of_epochs and head.sequence is None:
            return False
        return (
            self.flushing
            or head.attempts > 0
            or head.data is not None
            or len(queue.waiting) > 1
            or head.size_bytes >= self.rules.batch_bytes_max
            or head.created_ms + self.rules.linger_ms <= now_ms
        )

    def _note(self, queue: PartitionQueue) -> None:
        """What became of a batch may concern more than its partition."""
        self.given_up = self.given_up or queue.given_up
        self.out_of_epochs = self.out_of_epochs or queue.out_of_epochs

    def _left(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        self.buffered_bytes -= batch.charged_bytes
        batch.charged_bytes = 0
        assert self.buffered_bytes >= 0, self.buffered_bytes
        if queue.is_empty:
            self._busy.pop(queue.partition, None)

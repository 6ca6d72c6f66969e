"""A task: its rows in a transaction of one attempt, which is left open for the driver to end.

Rows come from Spark's process as Arrow, and while the next are waited for, in a thread of their
own, those before them are sent. Brokers are connected to when the first row is there (`with_rows`):
most tasks of a small batch have none.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.batch_sender import Delivery
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.transaction_requests import Claim, claim_id
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.identity import TopicPartition
from penstock.spark.connection import connect
from penstock.spark.sink.chunks import chunks_of
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.decision import Prepared, Witness
from penstock.spark.sink.errors import Contended
from penstock.spark.sink.names import Attempt, TaskNumbers, next_attempt
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.output_topics import need_topics
from penstock.spark.sink.rows import BatchBuilder

TRIES_MAX = 4
WITHDRAW_MS = 5_000
T = TypeVar("T")


class Sending(Protocol):
    """A producer that takes record batches."""

    async def send_batch(self, place: TopicPartition, batch: bytearray) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a task is to write, and how."""

    rows: Iterator[pa.RecordBatch]
    columns: Columns
    options: SinkOptions
    partition: int  # of the data frame, not of a topic


@dataclass(frozen=True, slots=True)
class Late:
    """What a task has written nobody will ask for, and it has aborted that: its batch was decided
    without it, or given up.
    """


@dataclass(frozen=True, slots=True)
class Watched:
    """A producer, and what has become of the first batch of each partition."""

    producer: TransactionalProducer
    deliveries: dict[TopicPartition, Delivery] = field(default_factory=dict)

    async def send_batch(self, place: TopicPartition, batch: bytearray) -> None:
        delivery = await self.producer.send_batch(place, batch)
        self.deliveries.setdefault(place, delivery)


async def compute(work: Work) -> None:
    """Takes all rows and writes none, for a batch that stands in the topic already. They have to be
    computed: Spark's state stores are committed when the rows of a task have been taken.
    """
    await asyncio.to_thread(_exhaust, work.rows)


def _exhaust(rows: Iterator[pa.RecordBatch]) -> None:
    for _ in rows:
        pass


async def with_rows(work: Work, write: Callable[[Cluster, Work], Awaitable[T]]) -> T | None:
    """Connects and writes as soon as there is a row; None where there is none, and then no broker
    is asked anything.
    """
    rows = await asyncio.to_thread(_from_first_row, work.rows)
    if rows is None:
        return None
    async with connect(work.options.connection) as cluster:
        return await write(cluster, replace(work, rows=rows))


def _from_first_row(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    for batch in rows:
        if batch.num_rows:
            return chain([batch], rows)
    return None


def numbers_of(task: TaskContext) -> TaskNumbers:
    return TaskNumbers(
        partition=task.partitionId(), attempt=task.attemptNumber(), unique=task.taskAttemptId()
    )


async def write_attempt(
    cluster: Cluster,
    work: Work,
    attempt: Attempt,
    *,
    two_phase: bool,
    is_late: Callable[[], Awaitable[bool]],
) -> Prepared | Late | None:
    """Writes the rows and leaves them open, unless it `is_late` then; None when there were none."""
    rules = TransactionRules(
        timeout_ms=work.options.timeout_ms,
        two_phase=two_phase,
        keep_prepared=two_phase,
        batches=batch_rules(work.options),
    )
    own = attempt
    for _ in range(TRIES_MAX):
        async with TransactionalProducer(cluster, own.transactional_id, rules=rules) as producer:
            if producer.kept is not None:
                own = next_attempt(own)
                continue
            try:
                await producer.begin()
                watched = Watched(producer)
                await send_rows(cluster, work, watched)
                prepared = _prepared(await producer.prepare(), watched.deliveries.values())
                if prepared is not None and not await is_late():
                    return prepared
            except BaseException:
                await _withdraw(producer)
                raise
            await _withdraw(producer)
            return None if prepared is None else Late()
    raise Contended(
        f"transactional id {attempt.transactional_id}: {TRIES_MAX} attempts with this id"
        " are running"
    )


async def _withdraw(producer: TransactionalProducer) -> None:
    """Aborts the own transaction, if the id is still the own one. Then it is taken once more, or it
    would look as if something decided had been aborted.
    """
    with contextlib.suppress(ClientError):
        await producer.abort()
        if producer.rules.two_phase:
            coordinators = Coordinators(producer.cluster, kind=CoordinatorKind.TRANSACTION)
            again = Claim(two_phase=True, held=producer.identity)
            await claim_id(coordinators, producer.transactional_id, again, wait_ms=WITHDRAW_MS)


async def send_rows(cluster: Cluster, work: Work, producer: Sending) -> None:
    options = work.options
    builder = BatchBuilder(
        columns=work.columns.alone,
        topic=options.topic,
        codec=options.codec,
        batch_bytes=options.batch_bytes,
        turn=work.partition,
    )
    chunks = chunks_of(work.rows, work.columns.places, chunk_bytes=options.chunk_bytes)
    while True:
        chunk = await asyncio.to_thread(next, chunks, None)
        if chunk is None:
            return
        topics = builder.topics(chunk)
        view = await need_topics(cluster, options.connection, topics)
        counts = {topic: len(view.topics[topic].partitions) for topic in topics}
        now_ms = cluster.clock.now_ms()
        for place, batch in builder.batches(chunk, counts, now_ms=now_ms):
            await producer.send_batch(place, batch)
            # The sender gets its turn between two batches.
            await asyncio.sleep(0)


def batch_rules(options: SinkOptions) -> BatchRules:
    return BatchRules(
        codec=options.codec,
        batch_bytes_max=options.batch_bytes,
        request_bytes_max=options.request_bytes,
        buffer_bytes_max=options.buffer_bytes,
        delivery_ms_max=options.delivery_ms_max,
    )


def _prepared(
    transaction: PreparedTransaction | None, deliveries: Iterable[Delivery]
) -> Prepared | None:
    if transaction is None:
        return None
    return Prepared(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        witness=witness_of(deliveries),
    )


def witness_of(deliveries: Iterable[Delivery]) -> Witness | None:
    """Of batches that have been delivered; None where a broker knew none of the offsets."""
    for delivery in deliveries:
        topic, partition, offset, _ = delivery.result()
        if offset is not None:
            return Witness(topic=topic, partition=partition, offset=offset)
    return None

"""A task: ranges of partitions, fetched, decoded and handed to Spark as Arrow record batches.

Checksums are checked, batches decompressed, and what a reader may not see left out, batch by batch;
records are looked at by the record kernel alone, many batches at a time. Batches for Spark hold
about CHUNK_BYTES of uncompressed records, however large or small the fetched ones are; the small
ones of many partitions in one reply are joined, since each batch has a price in the JVM.

The rows of one partition are in the order of their offsets; partitions take turns.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock.client.consume.isolation import Isolation
from penstock.client.consume.visible_batches import VisibleBatches
from penstock.client.network.cluster import Cluster
from penstock.model.limit import DECOMPRESSED_BYTES_MAX, KIB, MIB
from penstock.records.batch import BatchView, whole_batches
from penstock.records.errors import CorruptBatch
from penstock.records.gathered import Payload
from penstock.records.iterate import payload_of, records_of
from penstock.records.layout import MAGIC_V2, TimestampType
from penstock.records.write import encode_records
from penstock.spark.connection import connect
from penstock.spark.source.columns import ColumnBuilder
from penstock.spark.source.errors import DataLoss
from penstock.spark.source.fetching import Fetched, FetchedBytes, Lost, TaskFetcher
from penstock.spark.source.loop_thread import Background
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.plan import ReadRange, split
from penstock.spark.source.tasks import TaskRanges, TaskRules, grouped

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2 * MIB
JOINED_BYTES_MAX = 512 * KIB  # a copy of so much costs less than one more batch


class TaskPartition(InputPartition):
    """The ranges of a task, as Spark carries them to it; a task may have nothing to read."""

    def __init__(self, ranges: TaskRanges) -> None:
        super().__init__(ranges)
        self.ranges = ranges


def task_partitions(whole: Iterable[ReadRange], rules: TaskRules) -> list[TaskPartition]:
    """The tasks that read these ranges."""
    parts = split(whole, parts_min=rules.tasks_min, records_max=rules.records_max)
    return [TaskPartition(ranges) for ranges in grouped(parts, rules)]


def read_ranges(
    options: SourceOptions, ranges: TaskRanges, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The records of the ranges. DataLoss when some are gone, unless that is allowed."""
    if not ranges:
        return
    builder = ColumnBuilder(schema)
    with Background() as background:
        cluster = connect(options.connection)
        background.call(cluster.__aenter__())
        fetcher = background.call(_fetcher(cluster, options, ranges))
        try:
            while (reply := background.call(fetcher.next())) is not None:
                yield from joined(decoded(reply, builder, options))
        finally:
            background.finish(_closed(fetcher, cluster))


def report_loss(what: str, *, fail: bool) -> None:
    if fail:
        raise DataLoss(what)
    logger.warning("data_loss=%s", what)


def decoded(
    reply: Iterable[Fetched], builder: ColumnBuilder, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """What the ranges have of a reply; nothing for a chunk without a record in its range."""
    for fetched in reply:
        if isinstance(fetched, Lost):
            report_loss(fetched.what, fail=options.fail_on_data_loss)
            continue
        wanted = fetched.wanted
        start = max(fetched.position, wanted.start)
        for timestamp_type, payloads in chunks(fetched, options.isolation):
            try:
                batch = builder.build(
                    wanted.partition,
                    payloads,
                    start=start,
                    end=wanted.end,
                    timestamp_type=timestamp_type,
                )
            except CorruptBatch as error:
                raise CorruptBatch(
                    f"{wanted.partition}: between offsets {start} and {fetched.next_position}:"
                    f" {error}"
                ) from error
            if batch.num_rows:
                yield batch


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches that are not needlessly small."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        size_bytes = batch.nbytes
        if held and held_bytes + size_bytes > JOINED_BYTES_MAX:
            yield _one_batch(held)
            held, held_bytes = [], 0
        held.append(batch)
        held_bytes += size_bytes
    if held:
        yield _one_batch(held)


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """To join a single one would copy it."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def chunks(
    fetched: FetchedBytes, isolation: Isolation
) -> Iterator[tuple[TimestampType, list[Payload]]]:
    """Payloads that are seen, so many that they make a batch for Spark, all of one clock."""
    wanted = fetched.wanted
    visible = VisibleBatches(
        read_committed=isolation is Isolation.READ_COMMITTED, aborted=fetched.aborted
    )
    payloads: list[Payload] = []
    size_bytes = 0
    clock = TimestampType.CREATE_TIME
    for batch in whole_batches(fetched.data):
        if batch.base_offset >= wanted.end and batch.magic == MAGIC_V2:
            break
        if not batch.checksum_matches():
            raise CorruptBatch(
                f"{wanted.partition}: wrong checksum of the batch at offset {batch.base_offset}"
            )
        if not visible.shows(batch) or batch.next_offset <= fetched.position:
            continue
        if payloads and (size_bytes >= CHUNK_BYTES or batch.timestamp_type is not clock):
            yield clock, payloads
            payloads, size_bytes = [], 0
        clock = batch.timestamp_type
        for payload in _payloads(batch):
            payloads.append(payload)
            size_bytes += len(payload.records)
    if payloads:
        yield clock, payloads


def _payloads(batch: BatchView) -> Iterator[Payload]:
    if batch.magic != MAGIC_V2:
        # An old log may hold messages of formats v0 and v1: seldom enough to write them anew.
        for record in records_of(batch):
            alone = encode_records([record])
            yield Payload(alone.payload, 1, record.offset, alone.base_timestamp, None)
        return
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    yield Payload(
        payload_of(batch, bytes_max=DECOMPRESSED_BYTES_MAX),
        batch.record_count,
        batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp if appended else None,
    )


async def _closed(fetcher: TaskFetcher, cluster: Cluster) -> None:
    await fetcher.close()
    await cluster.__aexit__(None, None, None)


async def _fetcher(cluster: Cluster, options: SourceOptions, ranges: TaskRanges) -> TaskFetcher:
    return TaskFetcher(
        cluster,
        ranges,
        isolation=options.isolation,
        fetch_bytes_max=options.fetch_bytes_max,
        wait_ms_max=options.wait_ms_max,
    )

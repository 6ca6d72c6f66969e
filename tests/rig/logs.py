"""Logs for tests: batches that tell what they hold, and a log opened as a node opens it."""

from dataclasses import dataclass

from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.model.identity import ProducerEpoch, ProducerId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.iterate import records_of
from penstock.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.records.record import Record
from penstock.world.ports import Disk

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))
NOW_MS = 1_700_000_000_000
SMALL = TopicSettings(segment_bytes=1000, index_interval_bytes=150)


def make_batch(
    base_offset: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer: int = NO_PRODUCER_ID,
    sequence: int = -1,
    timestamp_ms: int | None = None,
    size_bytes: int = 20,
    transactional: bool = False,
) -> BatchView:
    """`count` records, whose value is their offset and whose time grows with it."""
    data = build_batch(
        [
            Record(
                b"key",
                str(base_offset + delta).encode().ljust(size_bytes, b"."),
                timestamp_ms=(NOW_MS + base_offset if timestamp_ms is None else timestamp_ms)
                + delta,
            )
            for delta in range(count)
        ],
        base_offset=Offset(base_offset),
        leader_epoch=LeaderEpoch(epoch),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(NO_PRODUCER_EPOCH if producer < 0 else 0),
        base_sequence=sequence,
        transactional=transactional,
    )
    return BatchView(memoryview(data))


def append(log: PartitionLog, count: int = 1, *, epoch: int = 0, producer: int = -1) -> BatchView:
    """One batch at the log's end; a producer's sequence is the offset."""
    end = log.end_offset
    sequence = end if producer >= 0 else -1
    batch = make_batch(end, count, epoch=epoch, producer=producer, sequence=sequence)
    log.append([batch], now_ms=NOW_MS)
    return batch


def values(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Every record of the log, through `read` as a consumer would go, with its offset."""
    found: list[tuple[int, bytes]] = []
    offset = log.start_offset
    while offset < log.end_offset:
        batches = read(log, offset)
        assert batches, f"nothing at {offset}, below the end {log.end_offset}"
        for batch in batches:
            for record in records_of(batch):
                if record.offset >= offset:
                    found.append((record.offset, (record.value or b"").rstrip(b".")))
            offset = batch.next_offset
    return found


def read(
    log: PartitionLog,
    offset: int,
    *,
    until_offset: int | None = None,
    size_bytes_max: int = 600,
    oversized_first: bool = True,
) -> list[BatchView]:
    """The whole batches of one slice."""
    until = log.end_offset if until_offset is None else Offset(until_offset)
    return whole(
        log.read(
            ReadBounds(
                from_offset=Offset(offset),
                until_offset=until,
                size_bytes_max=size_bytes_max,
                oversized_first=oversized_first,
            )
        )
    )


def whole(found: LogSlice) -> list[BatchView]:
    if found.span is None:
        return []
    span = found.span
    data = memoryview(span.file.read_at(span.position, span.byte_count))
    assert len(data) == span.byte_count
    batches = []
    position = 0
    while position + 12 <= len(data):
        size_bytes = 12 + int.from_bytes(data[position + 8 : position + 12])
        if position + size_bytes > len(data):
            break
        batches.append(BatchView(data[position : position + size_bytes]))
        position += size_bytes
    return batches


@dataclass(slots=True)
class Opened:
    directory: LogDirectory
    log: PartitionLog


def open_log(disk: Disk, path: str = "/data", settings: TopicSettings = SMALL) -> Opened:
    """The directory and its one log, as a start of a node does it."""
    directory = LogDirectory.open(disk=disk, path=path)
    log = directory.open_log(PARTITION, TOPIC_ID, settings, now_ms=NOW_MS)
    return Opened(directory, log)

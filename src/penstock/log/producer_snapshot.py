"""The producers of a log as of one offset, as bytes: what a `.snapshot` file holds.

     0  version             int16    1
     2  checksum            uint32   CRC32C of everything that follows
     6  number of entries   int32
        entries, 46 bytes each:
         0  producer id               int64
         8  producer epoch            int16
        10  last sequence             int32    -1 when no batch is remembered
        14  last offset               int64    -1 when no batch is remembered
        22  offset delta              int32    of the last batch
        26  timestamp                 int64
        34  coordinator epoch         int32
        38  current txn first offset  int64    -1 when no transaction is open

A producer has an entry for each remembered batch, oldest first, so that a retry of any of them is
recognised after a restart; otherwise it would be refused as out of order and written again in a new
epoch. Apache Kafka writes only the last one and, where a producer has several, reads the last. The
name of the file is the offset up to which it is valid; a torn file fails its checksum, and the one
before it is used.
"""

from struct import Struct
from struct import error as StructError

from penstock.log.errors import CorruptSnapshot
from penstock.log.producer_state import (
    BatchMemory,
    ProducerState,
    first_sequence,
    unbroken_from,
)
from penstock.model import limit
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import NO_OFFSET, Offset
from penstock.model.sequence import NO_SEQUENCE
from penstock.records.checksum import crc32c

VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


def encode_snapshot(producers: dict[ProducerId, ProducerState]) -> bytes:
    entries = [entry for producer in producers.values() for entry in _entries(producer)]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> dict[ProducerId, ProducerState]:
    """The producers in a file; CorruptSnapshot when it is invalid."""
    try:
        version, checksum = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except StructError as error:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a snapshot") from error
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c(data[_HEAD.size :]) != checksum:
        raise CorruptSnapshot("the checksum does not match")
    entries = data[_HEAD.size + _COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(entries)} bytes are not {count} entries")
    producers: dict[ProducerId, ProducerState] = {}
    for fields in _ENTRY.iter_unpack(entries):
        producer = _producer(fields)
        before = producers.get(producer.producer_id)
        if before is not None and before.epoch == producer.epoch:
            kept = before.batches + producer.batches
            producer.batches = kept[-limit.REMEMBERED_BATCHES :]
        producer.unbroken_from = unbroken_from(producer.batches)
        producers[producer.producer_id] = producer
    return producers


def _entries(producer: ProducerState) -> list[bytes]:
    """One of each batch; what is true of the producer as a whole stands in the last."""
    open_offset = producer.current_txn_first_offset
    last = producer.batches[-1] if producer.batches else None
    return [
        *(_entry(producer, batch, batch.timestamp_ms, None) for batch in producer.batches[:-1]),
        _entry(producer, last, producer.last_timestamp_ms, open_offset),
    ]


def _entry(
    producer: ProducerState,
    batch: BatchMemory | None,
    timestamp_ms: int,
    open_offset: Offset | None,
) -> bytes:
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        batch.last_sequence if batch else NO_SEQUENCE,
        batch.last_offset if batch else NO_OFFSET,
        batch.offset_delta if batch else 0,
        timestamp_ms,
        producer.coordinator_epoch,
        NO_OFFSET if open_offset is None else open_offset,
    )


def _producer(fields: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator, open_at = (
        fields
    )
    batches = []
    if last_offset >= 0:
        first = first_sequence(last_sequence=last_sequence, offset_delta=delta)
        batches = [BatchMemory(first, last_sequence, Offset(last_offset), delta, timestamp_ms)]
    return ProducerState(
        producer_id=ProducerId(producer_id),
        epoch=ProducerEpoch(epoch),
        batches=batches,
        coordinator_epoch=coordinator,
        current_txn_first_offset=Offset(open_at) if open_at >= 0 else None,
        last_timestamp_ms=timestamp_ms,
    )

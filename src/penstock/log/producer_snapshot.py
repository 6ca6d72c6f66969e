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

Of the five remembered batches only the last one is stored: after a restart a retry of an older one
is refused as out of order, as with Apache Kafka. The file is named by the offset up to which it
holds; a torn one fails its checksum and the one before it is used.
"""

from struct import Struct, error

from penstock.log.producer_state import BatchMemory, ProducerState, first_sequence
from penstock.log.trouble import CorruptSnapshot
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import NO_OFFSET, Offset
from penstock.model.sequence import NO_SEQUENCE
from penstock.records.checksum import crc32c

VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


def encode_snapshot(producers: dict[ProducerId, ProducerState]) -> bytes:
    parts = [_COUNT.pack(len(producers))]
    for producer in producers.values():
        last = producer.batches[-1] if producer.batches else None
        open_offset = producer.current_txn_first_offset
        parts.append(
            _ENTRY.pack(
                producer.producer_id,
                producer.epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NO_OFFSET,
                last.offset_delta if last else 0,
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                NO_OFFSET if open_offset is None else open_offset,
            )
        )
    body = b"".join(parts)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> dict[ProducerId, ProducerState]:
    """The producers that a file holds; CorruptSnapshot when it cannot be right."""
    try:
        version, checksum = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except error as trouble:
        raise CorruptSnapshot(f"{len(data)} bytes hold no snapshot") from trouble
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c(data[_HEAD.size :]) != checksum:
        raise CorruptSnapshot("the checksum does not match")
    entries = data[_HEAD.size + _COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(entries)} bytes are not {count} entries")
    producers = (_producer(fields) for fields in _ENTRY.iter_unpack(entries))
    return {producer.producer_id: producer for producer in producers}


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

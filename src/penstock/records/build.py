"""Batches of our own making.

`build_batch` numbers records densely from the base offset, with timestamps relative to the first
record's. `seal_batch` puts a header and its checksum before records that are encoded already.
"""

from collections.abc import Iterable, Sequence

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch, Offset
from penstock.model.sequence import NO_SEQUENCE
from penstock.records.checksum import crc32c
from penstock.records.compression import Codec, compress
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    CONTROL_FLAG,
    FIRST_OFFSET,
    HEADER,
    HEADER_BYTES,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    OVERHEAD_BYTES,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    UINT32,
    Buffer,
    TimestampType,
)
from penstock.records.record import Record
from penstock.records.write import encode_records

RECORD_OVERHEAD_BYTES_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5  # all numbers of a record at their longest
HEADER_OVERHEAD_BYTES_MAX = 5 + 5


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: Offset = FIRST_OFFSET,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch with these records, numbered from `base_offset`; their own offsets do not count."""
    encoded = encode_records(records)
    attributes = codec | (TRANSACTIONAL_FLAG if transactional else 0)
    attributes |= CONTROL_FLAG if control else 0
    attributes |= TIMESTAMP_TYPE_FLAG if timestamp_type else 0
    return seal_batch(
        compress(codec, encoded.payload, level),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        base_timestamp=encoded.base_timestamp,
        max_timestamp=encoded.max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=encoded.record_count,
    )


def seal_batch(
    payload: Buffer,
    *,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    base_sequence: int,
    record_count: int,
) -> bytearray:
    """The batch of `record_count` encoded records, compressed already if the attributes say so."""
    assert record_count > 0, record_count
    batch = bytearray(HEADER_BYTES)
    batch += payload
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - OVERHEAD_BYTES,
        leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    checksum = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    UINT32.pack_into(batch, CHECKSUM_POSITION, checksum)
    return batch


def record_bytes_max(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
) -> int:
    """At most so many bytes does a record take in any batch: what a producer reckons with."""
    return (
        RECORD_OVERHEAD_BYTES_MAX
        + len(key or b"")
        + len(value or b"")
        + sum(
            HEADER_OVERHEAD_BYTES_MAX + len(name.encode()) + len(content or b"")
            for name, content in headers
        )
    )

"""Batches of our own making. `build_batch` for records at hand, `BatchBuilder` for a producer.

Everything is numbered densely from the base offset; timestamps are relative to the first record's.
`seal_batch` puts a header and its checksum before records that are encoded already.
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
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    UINT32,
    Buffer,
    TimestampType,
)
from penstock.records.record import Headers, Record
from penstock.records.walk import encode_varint

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
    builder = BatchBuilder(codec=codec, level=level)
    for record in records:
        builder.append(record.key, record.value, record.headers, timestamp_ms=record.timestamp_ms)
    return builder.finish(
        base_offset=base_offset,
        timestamp_type=timestamp_type,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
    )


class BatchBuilder:
    """Gathers records; `finish` makes the batch. It may be finished again, as for a new epoch."""

    __slots__ = (
        "_codec",
        "_level",
        "_payload",
        "base_timestamp",
        "max_timestamp",
        "record_count",
    )

    def __init__(self, *, codec: Codec = Codec.NONE, level: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._payload = bytearray()
        self.record_count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        """Of the batch as it stands, before compression."""
        return HEADER_BYTES + len(self._payload)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        *,
        timestamp_ms: int,
    ) -> int:
        """Adds a record and returns its index in the batch."""
        index = self.record_count
        if index == 0:
            self.base_timestamp = timestamp_ms
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self._payload += encode_record(
            key,
            value,
            headers,
            timestamp_delta=timestamp_ms - self.base_timestamp,
            offset_delta=index,
        )
        self.record_count = index + 1
        return index

    def finish(
        self,
        *,
        base_offset: Offset = FIRST_OFFSET,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
    ) -> bytearray:
        assert self.record_count > 0
        attributes = self._codec | (TRANSACTIONAL_FLAG if transactional else 0)
        attributes |= CONTROL_FLAG if control else 0
        attributes |= TIMESTAMP_TYPE_FLAG if timestamp_type else 0
        return seal_batch(
            compress(self._codec, self._payload, self._level),
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=attributes,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
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


def encode_record(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    *,
    timestamp_delta: int,
    offset_delta: int,
) -> bytes:
    parts = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    _add_nullable(parts, key)
    _add_nullable(parts, value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        _add_nullable(parts, name.encode())
        _add_nullable(parts, content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


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


def _add_nullable(parts: list[bytes], content: bytes | None) -> None:
    if content is None:
        parts.append(NULL)
    else:
        parts.append(encode_varint(len(content)))
        parts.append(content)


NULL = encode_varint(-1)

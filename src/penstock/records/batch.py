"""One record batch, seen in place: its header as attributes, its bytes as a memoryview.

`batches` walks a buffer and yields a `BatchView` for each batch; nothing is copied. `BatchHeader`
is the same without the bytes, for those who read only headers from a file. A message of format v0
or v1 has these faces too, because an old log may hold one: a compressed wrapper knows its last
offset only, so its base offset is that.

A view trusts nothing but the size: whether the checksum matches and whether the records are what
the header says is asked for (`checksum_matches`, `records/validate`), since a leader, a follower
and a reader ask for different things.
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch, Offset
from penstock.model.sequence import NO_SEQUENCE, SEQUENCE_MAX
from penstock.records.checksum import crc32c
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatch
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    INT32,
    LEGACY_BYTES_MIN,
    LEGACY_HEADER,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    NUMBERED,
    OVERHEAD_BYTES,
    SIZE_POSITION,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Buffer,
    TimestampType,
)


class BatchHeader:
    """What the first 61 bytes of a batch say. Built per batch: plain slots, one unpack."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "checksum",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    base_offset: Offset
    size_bytes: int  # of the whole batch
    leader_epoch: LeaderEpoch
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int  # -1 for a compressed message of the old formats: it does not say

    def __init__(self, data: Buffer, position: int = 0) -> None:
        """Reads the header at `position`; the batch itself may go on beyond the end of `data`."""
        room = len(data) - position
        if room <= MAGIC_POSITION:
            raise CorruptBatch(f"{room} bytes hold no batch header", position=position)
        if data[position + MAGIC_POSITION] != MAGIC_V2:
            self._read_legacy(data, position)
            return
        if room < HEADER_BYTES:
            raise CorruptBatch(f"{room} bytes hold no batch header", position=position)
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.checksum,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = UNPACK_HEADER(data, position)
        self.size_bytes = length + OVERHEAD_BYTES
        if self.size_bytes < HEADER_BYTES:
            raise CorruptBatch(f"a batch of {self.size_bytes} bytes", position=position)

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """The offset after this batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; it may have passed 2^31 - 1 and begun again."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def codec(self) -> Codec:
        """How the records are compressed; CorruptBatch when the attributes name no codec."""
        number = self.attributes & CODEC_MASK
        if number >= len(CODECS):
            raise CorruptBatch(f"unknown codec {number}")
        return CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop tombstones and markers; None until it has decided on a time."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    def _read_legacy(self, data: Buffer, position: int) -> None:
        magic = data[position + MAGIC_POSITION]
        layout = LEGACY_HEADER.get(magic)
        if layout is None:
            raise CorruptBatch(f"unknown magic {magic}", position=position)
        if len(data) - position < layout.size:
            raise CorruptBatch("too few bytes for a message header", position=position)
        offset, length, self.checksum, self.magic, attributes, *timestamp = layout.unpack_from(
            data, position
        )
        self.base_offset = Offset(offset)
        self.size_bytes = length + OVERHEAD_BYTES
        if self.size_bytes < LEGACY_BYTES_MIN[magic]:
            raise CorruptBatch(f"a message of {self.size_bytes} bytes", position=position)
        self.leader_epoch = NO_LEADER_EPOCH
        # Only these bits have a meaning in the old formats; others must not pass for flags of v2.
        meaning = CODEC_MASK if magic == MAGIC_V0 else CODEC_MASK | TIMESTAMP_TYPE_FLAG
        self.attributes = attributes & meaning
        self.last_offset_delta = 0
        self.base_timestamp = self.max_timestamp = timestamp[0] if timestamp else NO_TIMESTAMP
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.record_count = -1 if self.attributes & CODEC_MASK else 1


class BatchView(BatchHeader):
    """Exactly one batch, in the memory that it arrived in."""

    __slots__ = ("view",)

    view: memoryview

    def __init__(self, view: memoryview) -> None:
        BatchHeader.__init__(self, view)
        if self.size_bytes != len(view):
            raise CorruptBatch(f"a batch of {self.size_bytes} bytes in {len(view)} bytes")
        self.view = view

    def __repr__(self) -> str:
        return (
            f"BatchView(base_offset={self.base_offset}, last_offset={self.last_offset},"
            f" size_bytes={self.size_bytes})"
        )

    def checksum_matches(self) -> bool:
        if self.magic == MAGIC_V2:
            return crc32c(self.view[ATTRIBUTES_POSITION:]) == self.checksum
        return crc32(self.view[MAGIC_POSITION:]) == self.checksum

    def assign(self, *, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Writes what the leader gives the batch, in place; the checksum does not cover it."""
        assert self.magic == MAGIC_V2, self.magic
        assert base_offset >= 0, base_offset
        PACK_NUMBERED(self.view, 0, base_offset, self.size_bytes - OVERHEAD_BYTES, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch


def batches(data: memoryview) -> Iterator[BatchView]:
    """Every batch of `data`, which must end where a batch ends; CorruptBatch otherwise."""
    position = 0
    end = len(data)
    while position < end:
        view = whole_batch(data, position)
        if view is None:
            raise CorruptBatch(f"{end - position} bytes hold no whole batch", position=position)
        yield view
        position += view.size_bytes


def whole_batches(data: memoryview) -> Iterator[BatchView]:
    """As `batches`, but the last one may be cut off, as in a fetch reply; it is left out."""
    position = 0
    while (view := whole_batch(data, position)) is not None:
        yield view
        position += view.size_bytes


def whole_batch(data: memoryview, position: int = 0) -> BatchView | None:
    """The batch at `position`; None when it is cut off, or nothing is there."""
    room = len(data) - position
    if room < OVERHEAD_BYTES:
        return None
    size_bytes = UNPACK_INT32(data, position + SIZE_POSITION)[0] + OVERHEAD_BYTES
    if size_bytes < LEGACY_BYTES_MIN[MAGIC_V0]:
        raise CorruptBatch(f"a batch of {size_bytes} bytes", position=position)
    if room > MAGIC_POSITION and (magic := data[position + MAGIC_POSITION]) > MAGIC_V2:
        raise CorruptBatch(f"unknown magic {magic}", position=position)
    if size_bytes > room:
        return None
    if size_bytes == len(data):
        return BatchView(data)
    return BatchView(data[position : position + size_bytes])


# What each batch would look up in an enum or a Struct, at hand: there it costs as much as a call.
UNPACK_HEADER: Final = HEADER.unpack_from
UNPACK_INT32: Final = INT32.unpack_from
PACK_NUMBERED: Final = NUMBERED.pack_into
CODECS: Final = tuple(Codec)
CREATE_TIME: Final = TimestampType.CREATE_TIME
LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME

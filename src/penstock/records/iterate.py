"""Reading the records of a batch, of whatever format."""

from collections.abc import Iterator

from penstock.model.limit import DECOMPRESSED_BYTES_MAX
from penstock.records.batch import BatchView
from penstock.records.compression import decompress
from penstock.records.errors import CorruptBatch
from penstock.records.layout import (
    CODEC_MASK,
    MAGIC_V2,
    RECORDS_POSITION,
    Buffer,
    TimestampType,
)
from penstock.records.legacy import records_of_message
from penstock.records.record import Record
from penstock.records.scratch import Scratch
from penstock.records.walk import read_records


def records_of(batch: BatchView, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Every record with its own offset and timestamp; CorruptBatch as soon as one makes no sense.

    The checksum is not looked at, and a batch of format v0 or v1 is read as well.
    """
    if batch.magic != MAGIC_V2:
        return records_of_message(batch, bytes_max=bytes_max)
    if batch.record_count < 0:
        raise CorruptBatch(f"a batch of {batch.record_count} records")
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return read_records(
        payload_of(batch, bytes_max=bytes_max),
        batch.record_count,
        batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp if appended else None,
    )


def payload_of(
    batch: BatchView,
    *,
    bytes_max: int,
    scratch: Scratch | None = None,
    blocks_bounded: bool = False,
) -> Buffer:
    """The encoded records of a v2 batch, decompressed; in the scratch memory, if there is one."""
    assert batch.magic == MAGIC_V2, batch.magic
    payload = batch.view[RECORDS_POSITION:]
    if not batch.attributes & CODEC_MASK and len(payload) <= bytes_max:
        return payload
    return decompress(
        batch.codec,
        payload,
        bytes_max=bytes_max,
        scratch=scratch,
        blocks_bounded=blocks_bounded,
    )

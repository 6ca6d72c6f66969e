"""Reading messages of formats v0 and v1, which old logs may still hold. They are never written.

A compressed message is a wrapper: its value is a whole message set. Offsets of the inner messages
are absolute in v0; in v1 they are relative, and the wrapper has the absolute offset of the last.
"""

from collections.abc import Iterator

from penstock.model.limit import DECOMPRESSED_BYTES_MAX
from penstock.model.offset import Offset
from penstock.records.batch import BatchView, whole_batches
from penstock.records.compression import Codec, decompress
from penstock.records.errors import CorruptBatch
from penstock.records.layout import (
    INT32,
    LEGACY_HEADER,
    MAGIC_V0,
    MAGIC_V2,
    TimestampType,
)
from penstock.records.lz4_frame import repair_lz4_header
from penstock.records.record import Record


def records_of_message(
    message: BatchView, *, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The one record of a plain message, or every record that a compressed one wraps."""
    assert message.magic != MAGIC_V2
    if message.codec is Codec.NONE:
        yield _record_of(message, offset=message.base_offset, timestamp_ms=message.max_timestamp)
        return
    inner = _inner_messages(message, bytes_max)
    shift = 0
    if message.magic != MAGIC_V0 and inner:
        shift = message.base_offset - inner[-1].base_offset
    appended = message.timestamp_type is TimestampType.LOG_APPEND_TIME
    for one in inner:
        yield _record_of(
            one,
            offset=Offset(one.base_offset + shift),
            timestamp_ms=message.max_timestamp if appended else one.max_timestamp,
        )


def _inner_messages(wrapper: BatchView, bytes_max: int) -> list[BatchView]:
    _, value = _key_and_value(wrapper)
    if value is None:
        raise CorruptBatch("a compressed message without a value")
    if wrapper.codec is Codec.ZSTD:
        raise CorruptBatch("zstd came after the old formats")
    if wrapper.codec is Codec.LZ4 and wrapper.magic == MAGIC_V0:
        value = memoryview(repair_lz4_header(value))
    data = memoryview(decompress(wrapper.codec, value, bytes_max=bytes_max))
    inner = list(whole_batches(data))
    for one in inner:
        if one.magic != wrapper.magic:
            raise CorruptBatch(f"a message of format {one.magic} within one of {wrapper.magic}")
        if one.codec is not Codec.NONE:
            raise CorruptBatch("a compressed message within a compressed message")
    if sum(one.size_bytes for one in inner) != len(data):
        raise CorruptBatch("a message within a compressed message is cut off")
    return inner


def _record_of(message: BatchView, *, offset: Offset, timestamp_ms: int) -> Record:
    key, value = _key_and_value(message)
    return Record(
        key=None if key is None else bytes(key),
        value=None if value is None else bytes(value),
        timestamp_ms=timestamp_ms,
        offset=offset,
    )


def _key_and_value(message: BatchView) -> tuple[memoryview | None, memoryview | None]:
    view = message.view
    key, position = _nullable(view, LEGACY_HEADER[message.magic].size)
    value, position = _nullable(view, position)
    if position != len(view):
        raise CorruptBatch(f"{len(view) - position} bytes after the value of a message")
    return key, value


def _nullable(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    start = position + INT32.size
    if start > len(view):
        raise CorruptBatch("a message ends before its value")
    (length,) = INT32.unpack_from(view, position)
    if length < 0:
        return None, start
    if start + length > len(view):
        raise CorruptBatch("a field is longer than its message")
    return view[start : start + length], start + length

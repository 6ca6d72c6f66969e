"""Walks over the batches of a segment's file: only headers, or whole batches.

Both walks yield (position, batch) in file order and stop at `end`. Bytes that are not a batch raise
CorruptBatch with their position in the file; the caller knows whether that is the torn tail of a
crash or a damaged disk. A file that ends before `end` raises IncompleteBatch, which is one.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from penstock.model.limit import KIB, MIB
from penstock.model.offset import Offset
from penstock.records.batch import BatchHeader, BatchView
from penstock.records.errors import CorruptBatch, IncompleteBatch
from penstock.records.layout import (
    HEADER_BYTES,
    INT32,
    MAGIC_V2,
    OVERHEAD_BYTES,
    SIZE_POSITION,
)
from penstock.world.ports import File

# One read covers what lies between two index entries by default, and the header after it.
HEADER_READ_BYTES: Final = 8 * KIB
FIRST_READ_BYTES: Final = 1 * KIB
BATCH_READ_BYTES: Final = 1 * MIB
PLACE: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta (format v2)


def headers(file: File, *, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """The header of every batch in [start, end); `start` is where a batch begins."""
    position = start
    while position < end:
        chunk = file.read_at(position, min(HEADER_READ_BYTES, end - position))
        at = 0
        last_read = position + len(chunk) == end
        while at < len(chunk) and (last_read or at + HEADER_BYTES <= len(chunk)):
            header = _header(chunk, at, file_position=position + at)
            if position + at + header.size_bytes > end:
                raise IncompleteBatch("a batch is truncated", position=position + at)
            yield position + at, header
            at += header.size_bytes
        if at == 0:
            raise IncompleteBatch("a batch is truncated", position=position)
        position += at


def whole_batches(file: File, *, start: int, end: int) -> Iterator[tuple[int, BatchView]]:
    """Every batch in [start, end), with its bytes; views are valid as long as they are held."""
    position = start
    read_bytes = BATCH_READ_BYTES
    while position < end:
        asked_bytes = min(read_bytes, end - position)
        chunk = memoryview(file.read_at(position, asked_bytes))
        at = 0
        needed = OVERHEAD_BYTES
        while len(chunk) - at >= OVERHEAD_BYTES:
            needed = _size(chunk, at, file_position=position + at)
            if needed > len(chunk) - at:
                break
            yield position + at, _view(chunk[at : at + needed], file_position=position + at)
            at += needed
            needed = OVERHEAD_BYTES
        if position + len(chunk) == end and at < len(chunk):
            raise IncompleteBatch("a batch is truncated", position=position + at)
        if position + at + needed > end and position + at < end:
            raise IncompleteBatch("a batch is truncated", position=position + at)
        if at == 0 and len(chunk) < asked_bytes:
            raise IncompleteBatch("a batch is truncated", position=position + at)
        position += at
        read_bytes = max(BATCH_READ_BYTES, needed)


def find(file: File, offset: Offset, *, start: int, end: int) -> tuple[int, int] | None:
    """Position and size of the first batch in [start, end) that reaches `offset` or beyond.

    A fetch begins with this, so it reads only the fields it needs, and one header at a time once
    batches turn out to be large.
    """
    position = start
    read_bytes = FIRST_READ_BYTES
    while position < end:
        chunk = file.read_at(position, min(read_bytes, end - position))
        if position + len(chunk) == end:
            chunk += b"\0"  # the smallest message, of format v0, is a byte shorter than a PLACE
        at = 0
        room = len(chunk) - PLACE.size
        while at <= room:
            base_offset, length, magic, last_offset_delta = PLACE.unpack_from(chunk, at)
            if length <= 0 or not 0 <= magic <= MAGIC_V2:
                raise CorruptBatch("no batch header", position=position + at)
            size_bytes = length + OVERHEAD_BYTES
            last_offset = base_offset + last_offset_delta if magic == MAGIC_V2 else base_offset
            if last_offset >= offset:
                if position + at + size_bytes > end:
                    raise IncompleteBatch("a batch is truncated", position=position + at)
                return position + at, size_bytes
            at += size_bytes
        if at == 0:
            raise IncompleteBatch("a batch is truncated", position=position)
        read_bytes = PLACE.size if at > HEADER_READ_BYTES else HEADER_READ_BYTES
        position += at
    return None


def find_at(file: File, offset: Offset, *, position: int, end: int) -> tuple[int, int] | None:
    """The batch at `position`, as `find` returns it, if it holds `offset`; else None."""
    chunk = file.read_at(position, min(PLACE.size, end - position))
    if len(chunk) < PLACE.size:
        return None
    base_offset, length, magic, last_offset_delta = PLACE.unpack_from(chunk, 0)
    size_bytes = length + OVERHEAD_BYTES
    if magic != MAGIC_V2 or length <= 0 or position + size_bytes > end:
        return None  # whoever searches finds out what is wrong with it
    if not base_offset <= offset <= base_offset + last_offset_delta:
        return None
    return position, size_bytes


def _size(chunk: memoryview, at: int, *, file_position: int) -> int:
    size_bytes: int = INT32.unpack_from(chunk, at + SIZE_POSITION)[0] + OVERHEAD_BYTES
    if size_bytes <= OVERHEAD_BYTES:
        raise CorruptBatch(f"invalid batch size: {size_bytes} bytes", position=file_position)
    return size_bytes


def _header(chunk: bytes, at: int, *, file_position: int) -> BatchHeader:
    try:
        return BatchHeader(chunk, at)
    except CorruptBatch as error:
        raise CorruptBatch(error.reason, position=file_position) from error


def _view(view: memoryview, *, file_position: int) -> BatchView:
    try:
        return BatchView(view)
    except CorruptBatch as error:
        raise CorruptBatch(error.reason, position=file_position) from error

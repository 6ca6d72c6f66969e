"""What a producer says of its own trace: the header `traceparent` of a record (W3C Trace Context).

    00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    version, trace id, id of the span that is the parent, flags: bit 0 says whether it is sampled

Only the first record of a batch is looked at, and only if the batch is not compressed: its key and
value are passed over, and of its headers HEADERS_MAX at most are read. What is no such header, or
no record, says nothing: whether the batch may be appended is decided elsewhere.
"""

import re
from typing import Final, NamedTuple

from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    INT16,
    MAGIC_POSITION,
    MAGIC_V2,
    RECORDS_POSITION,
)

KEY: Final = b"traceparent"
HEADERS_MAX: Final = 64
VALUE_BYTES_MAX: Final = 256
NUMBER_BYTES_MAX: Final = 10  # of a varint
SAMPLED_FLAG: Final = 1
# A later version may have more behind it; ff is none.
FORM: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.DOTALL,
)


class TraceParent(NamedTuple):
    trace_id: bytes  # of 16 bytes
    span_id: bytes  # of 8
    is_sampled: bool


def parse_traceparent(value: bytes) -> TraceParent | None:
    form = FORM.fullmatch(value)
    if form is None:
        return None
    version, trace_id, span_id, flags, more = form.groups()
    if version == b"00" and more is not None:
        return None
    return TraceParent(
        bytes.fromhex(trace_id.decode()),
        bytes.fromhex(span_id.decode()),
        bool(int(flags, 16) & SAMPLED_FLAG),
    )


def traceparent_of(batch: memoryview) -> TraceParent | None:
    """That of the first record of a whole batch."""
    if len(batch) <= RECORDS_POSITION or batch[MAGIC_POSITION] != MAGIC_V2:
        return None
    [attributes] = INT16.unpack_from(batch, ATTRIBUTES_POSITION)
    if attributes & CODEC_MASK:
        return None
    try:
        value = _first_value(batch)
    except (IndexError, ValueError):
        return None
    return None if value is None else parse_traceparent(value)


def _first_value(batch: memoryview) -> bytes | None:
    """IndexError or ValueError where there is no record."""
    _, at = _number(batch, RECORDS_POSITION)  # its length
    _, at = _number(batch, at + 1)  # behind its attributes: the timestamp
    _, at = _number(batch, at)  # the offset
    at = _passed_over(batch, at)  # the key
    at = _passed_over(batch, at)  # the value
    count, at = _number(batch, at)
    for _ in range(min(count, HEADERS_MAX)):
        key, at = _bytes(batch, at, len(KEY))
        value, at = _bytes(batch, at, VALUE_BYTES_MAX)
        if key == KEY:
            return value
    return None


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """A number in zigzag code, and what follows it."""
    code = shift = 0
    for position in range(at, at + NUMBER_BYTES_MAX):
        code |= (data[position] & 0x7F) << shift
        if data[position] < 0x80:
            return (code >> 1) ^ -(code & 1), position + 1
        shift += 7
    raise ValueError("no varint")


def _passed_over(data: memoryview, at: int) -> int:
    size, at = _number(data, at)
    return at + max(size, 0)


def _bytes(data: memoryview, at: int, bytes_max: int) -> tuple[bytes | None, int]:
    """Bytes, unless there are too many, and what follows them. None also for a null."""
    size, at = _number(data, at)
    if size < 0:
        return None, at
    return (data[at : at + size].tobytes() if size <= bytes_max else None), at + size

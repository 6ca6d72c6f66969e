"""The walks over single records: all the per-record Python there is on produce and on reading.

Plain buffers and numbers in, plain values out: a compiled kernel can take the place of this module
function by function. `check_records` skips keys and values and makes no object per record;
`read_records` makes one Record each. Both take the payload of a batch, uncompressed, and raise
CorruptBatch unless it is exactly `record_count` well-formed records.

The varints of small numbers, one and two bytes, are decoded in place, since a call would double the
price of a walk; longer ones go to `long_varint`. Reading past the end is an IndexError, caught once
around the loop: cheaper than a comparison at each byte, and nothing read there is ever used.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.model.offset import Offset
from penstock.records.layout import NO_TIMESTAMP, Buffer
from penstock.records.record import Headers, Record
from penstock.records.trouble import CorruptBatch

INT32_CODES = 1 << 32  # an int32 zigzag-coded lies below this
INT64_CODES = 1 << 64


class Walked(NamedTuple):
    """What `check_records` saw."""

    timestamp_max: int  # of the records within bounds; NO_TIMESTAMP when none has a timestamp
    offsets_dense: bool  # record i has offset delta i
    keyless: list[int]  # indexes, when keys were required
    untimely: list[tuple[int, int]]  # index and timestamp of those out of bounds


def check_records(
    payload: Buffer,
    record_count: int,
    base_timestamp: int,
    timestamp_low: int,
    timestamp_high: int,
    key_required: bool,
) -> Walked:
    """Walks all records; a timestamp is fine when it is -1 or low <= timestamp <= high."""
    data = payload  # in place, no copy: an index into a memoryview costs a tenth more at most
    data_end = len(data)
    timestamp_max = NO_TIMESTAMP
    offsets_dense = True
    keyless: list[int] = []
    untimely: list[tuple[int, int]] = []
    position = 0
    try:
        for index in range(record_count):
            code = data[position]
            position += 1
            if code > 0x7F:
                if (more := data[position]) < 0x80:
                    code += (more << 7) - 0x80
                    position += 1
                else:
                    code, position = long_varint(data, position - 1, INT32_CODES)
            record_end = position + (code >> 1)
            if code & 1 or record_end > data_end:
                raise CorruptBatch(f"record {index} is longer than the batch")

            position += 1  # attributes, of which none is in use
            code = data[position]
            position += 1
            if code > 0x7F:
                if (more := data[position]) < 0x80:
                    code += (more << 7) - 0x80
                    position += 1
                else:
                    code, position = long_varint(data, position - 1, INT64_CODES)
            timestamp = base_timestamp + ((code >> 1) ^ -(code & 1))
            if timestamp_low <= timestamp <= timestamp_high:
                if timestamp > timestamp_max:
                    timestamp_max = timestamp
            elif timestamp != NO_TIMESTAMP:
                untimely.append((index, timestamp))

            code = data[position]
            position += 1
            if code > 0x7F:
                if (more := data[position]) < 0x80:
                    code += (more << 7) - 0x80
                    position += 1
                else:
                    code, position = long_varint(data, position - 1, INT32_CODES)
            if code != index << 1:
                offsets_dense = False

            code = data[position]
            position += 1
            if code > 0x7F:
                if (more := data[position]) < 0x80:
                    code += (more << 7) - 0x80
                    position += 1
                else:
                    code, position = long_varint(data, position - 1, INT32_CODES)
            if not code & 1:
                position += code >> 1
            elif key_required:
                keyless.append(index)

            code = data[position]
            position += 1
            if code > 0x7F:
                if (more := data[position]) < 0x80:
                    code += (more << 7) - 0x80
                    position += 1
                else:
                    code, position = long_varint(data, position - 1, INT32_CODES)
            if not code & 1:
                position += code >> 1

            if data[position]:
                position = _skip_headers(data, position, record_end)
            else:
                position += 1
            if position != record_end:
                raise CorruptBatch(f"record {index} is not as long as it says")
    except IndexError as trouble:
        raise CorruptBatch("the batch ends within a record") from trouble
    if position != data_end:
        raise CorruptBatch(f"{data_end - position} bytes after the last record")
    return Walked(timestamp_max, offsets_dense, keyless, untimely)


def read_records(
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> Iterator[Record]:
    """Yields every record; with a `fixed_timestamp` (LogAppendTime) that is the time of each."""
    data = bytes(payload)  # so that each slice of it is a copy of its own
    data_end = len(data)
    position = 0
    make = tuple.__new__
    headers: Headers
    for index in range(record_count):
        try:
            if (code := data[position]) < 0x80:
                position += 1
            else:
                code, position = long_varint(data, position, INT32_CODES)
            record_end = position + (code >> 1)
            if code & 1 or record_end > data_end:
                raise CorruptBatch(f"record {index} is longer than the batch")
            code, position = _varint(data, position + 1, INT64_CODES)
            timestamp = base_timestamp + ((code >> 1) ^ -(code & 1))
            if (code := data[position]) < 0x80:
                position += 1
            else:
                code, position = long_varint(data, position, INT32_CODES)
            offset = base_offset + ((code >> 1) ^ -(code & 1))
            key, position = _nullable_bytes(data, position, record_end)
            value, position = _nullable_bytes(data, position, record_end)
            if data[position]:
                headers, position = _read_headers(data, position, record_end)
            else:
                headers = ()
                position += 1
        except IndexError as trouble:
            raise CorruptBatch("the batch ends within a record") from trouble
        if position != record_end:
            raise CorruptBatch(f"record {index} is not as long as it says")
        if fixed_timestamp is not None:
            timestamp = fixed_timestamp
        yield make(Record, (key, value, headers, timestamp, Offset(offset)))
    if position != data_end:
        raise CorruptBatch(f"{data_end - position} bytes after the last record")


def renumber_records(payload: Buffer, record_count: int) -> bytearray:
    """The same records, checked before, with offset deltas 0, 1, 2 and so on."""
    data = bytes(payload)
    renumbered = bytearray()
    position = 0
    for index in range(record_count):
        code, start = _varint(data, position, INT32_CODES)
        position = start + (code >> 1)
        _, delta_start = _varint(data, start + 1, INT64_CODES)
        _, delta_end = _varint(data, delta_start, INT32_CODES)
        body = data[start:delta_start] + encode_varint(index) + data[delta_end:position]
        renumbered += encode_varint(len(body))
        renumbered += body
    assert position == len(data)
    return renumbered


def encode_varint(value: int) -> bytes:
    """Zigzag-coded, as every number in a record is; for int32 and int64 alike."""
    code = value << 1 if value >= 0 else ~(value << 1)
    if code < 0x80:
        return ONE_BYTE[code]
    if code < 0x4000:
        return bytes((code & 0x7F | 0x80, code >> 7))
    encoded = bytearray()
    while code > 0x7F:
        encoded.append(code & 0x7F | 0x80)
        code >>= 7
    encoded.append(code)
    return bytes(encoded)


ONE_BYTE = [bytes((code,)) for code in range(0x80)]


def long_varint(data: Buffer, position: int, codes: int) -> tuple[int, int]:
    """The code, still zigzag, of two or more bytes at `position`, and the position after it.

    It must lie below `codes`, which is above 2^14.
    """
    if (more := data[position + 1]) < 0x80:
        return data[position] + (more << 7) - 0x80, position + 2
    code = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        code |= (byte & 0x7F) << shift
        if code >= codes:
            raise CorruptBatch("a number is out of range")
        if byte < 0x80:
            return code, position
        shift += 7
        if shift > 63:
            raise CorruptBatch("a number does not end")


def _varint(data: Buffer, position: int, codes: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    return long_varint(data, position, codes)


def _nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """A length and so many bytes; every negative length is a null, as Kafka reads it."""
    if (code := data[position]) < 0x80:
        position += 1
    else:
        code, position = long_varint(data, position, INT32_CODES)
    if code & 1:
        return None, position
    stop = position + (code >> 1)
    if stop > end:
        raise CorruptBatch("a field is longer than its record")
    return data[position:stop], stop


def _header_count(data: Buffer, position: int, end: int) -> tuple[int, int]:
    code, position = _varint(data, position, INT32_CODES)
    count = code >> 1
    # A header takes two bytes at least, so this bounds the loop that follows.
    if code & 1 or count * 2 > end - position:
        raise CorruptBatch("more headers than the record has room for")
    return count, position


def _skip_headers(data: Buffer, position: int, end: int) -> int:
    count, position = _header_count(data, position, end)
    for _ in range(count):
        code, position = _varint(data, position, INT32_CODES)
        if code & 1:
            raise CorruptBatch("a header without a key")
        code, position = _varint(data, position + (code >> 1), INT32_CODES)
        if not code & 1:
            position += code >> 1
    return position


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = _header_count(data, position, end)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _nullable_bytes(data, position, end)
        if key is None:
            raise CorruptBatch("a header without a key")
        value, position = _nullable_bytes(data, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position

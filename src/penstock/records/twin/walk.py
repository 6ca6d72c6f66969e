"""Reading single records: all the per-record Python there is where no kernel was compiled.

Plain buffers and numbers in, plain values out. `check_records` skips keys and values and makes no
object per record; `read_records` makes one Record each; `read_columns` makes buffers. All take the
payload of a batch, uncompressed, and raise CorruptBatch unless it is exactly `record_count`
well-formed records. Sums that leave int64 wrap around when they are read, as in Apache Kafka.

The varints of small numbers, one and two bytes, are decoded in place, since a call would double the
price of a walk; longer ones go to `long_varint`. Reading past the end is an IndexError, caught once
around the loop: cheaper than a comparison at each byte, and nothing read there is ever used.
"""

from array import array
from collections.abc import Iterator

from penstock.model.limit import RECORD_ERRORS_MAX
from penstock.model.offset import Offset
from penstock.records.fault import Fault, corrupt
from penstock.records.layout import NO_TIMESTAMP, Buffer
from penstock.records.record import Headers, Record
from penstock.records.walked import BytesColumn, RecordColumns, Walked

INT32_CODES = 1 << 32  # an int32 zigzag-coded lies below this
INT64_CODES = 1 << 64
INT64_LIMIT = 1 << 63


def check_records(
    payload: Buffer,
    record_count: int,
    base_timestamp: int,
    timestamp_low: int,
    timestamp_high: int,
    key_required: bool,
) -> Walked:
    """Walks all records; a timestamp is fine when it is -1 or low <= timestamp <= high.

    One beyond int64 is not fine, whatever the bounds; it is listed as what it wraps around to.
    """
    data = payload  # in place, no copy: an index into a memoryview costs a tenth more at most
    data_end = len(data)
    timestamp_max = NO_TIMESTAMP
    offsets_dense = True
    keyless_count = untimely_count = 0
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
                raise corrupt(Fault.RECORD_BEYOND_BATCH, index)

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
            timely = timestamp_low <= timestamp <= timestamp_high
            if timely and timestamp > timestamp_max:
                timestamp_max = timestamp

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
            if code & 1 and key_required:
                keyless_count += 1
                if keyless_count <= RECORD_ERRORS_MAX:
                    keyless.append(index)
            elif not timely and timestamp != NO_TIMESTAMP:
                untimely_count += 1
                if untimely_count <= RECORD_ERRORS_MAX:
                    untimely.append((index, wrap_int64(timestamp)))

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
                raise corrupt(Fault.RECORD_OF_OTHER_SIZE, index)
    except IndexError as error:
        raise corrupt(Fault.ENDS_WITHIN_RECORD) from error
    if position != data_end:
        raise corrupt(Fault.BYTES_LEFT, data_end - position)
    return Walked(timestamp_max, offsets_dense, keyless_count, untimely_count, keyless, untimely)


def read_records(
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> Iterator[Record]:
    """Every record in turn; with a `fixed_timestamp` (LogAppendTime) that is the time of each.

    The payload is copied at once, so that it may change while the records are gone through.
    """
    return _read(bytes(payload), record_count, base_offset, base_timestamp, fixed_timestamp)


def _read(
    data: bytes,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> Iterator[Record]:
    make = tuple.__new__
    for timestamp_delta, offset_delta, key, value, headers, _ in fields_of(data, record_count):
        timestamp = fixed_timestamp
        if timestamp is None:
            timestamp = wrap_int64(base_timestamp + timestamp_delta)
        offset = Offset(wrap_int64(base_offset + offset_delta))
        yield make(Record, (key, value, headers, timestamp, offset))


def read_columns(
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> RecordColumns:
    """The same records as columns; the headers of each stay encoded."""
    offsets = array("q")
    timestamps = array("q")
    keys = GrowingColumn()
    values = GrowingColumn()
    raw_headers = GrowingColumn()
    held = bytes(payload)
    for timestamp_delta, offset_delta, key, value, _, raw in fields_of(held, record_count):
        offsets.append(wrap_int64(base_offset + offset_delta))
        timestamps.append(
            wrap_int64(base_timestamp + timestamp_delta)
            if fixed_timestamp is None
            else fixed_timestamp
        )
        keys.append(key)
        values.append(value)
        raw_headers.append(raw)
    return RecordColumns(
        len(offsets),
        offsets.tobytes(),
        timestamps.tobytes(),
        keys.finish(),
        values.finish(),
        raw_headers.finish()._replace(validity=None),
    )


class GrowingColumn:
    """A column of bytes that grows."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._offsets = array("i", (0,))
        self._validity = bytearray()
        self.has_nulls = False

    def append(self, content: bytes | None) -> None:
        row = len(self._offsets) - 1
        if row % 8 == 0:
            self._validity.append(0)
        if content is not None:
            self._data += content
            self._validity[row // 8] |= 1 << row % 8
        else:
            self.has_nulls = True
        self._offsets.append(len(self._data))

    def finish(self) -> BytesColumn:
        return BytesColumn(bytes(self._data), self._offsets.tobytes(), 4, bytes(self._validity))


_Fields = tuple[int, int, bytes | None, bytes | None, Headers, bytes]


def fields_of(data: bytes, record_count: int) -> Iterator[_Fields]:
    """Timestamp and offset delta, key, value, headers and encoded headers of each record."""
    data_end = len(data)
    position = 0
    headers: Headers
    for index in range(record_count):
        try:
            code, position = varint(data, position, INT32_CODES)
            record_end = position + (code >> 1)
            if code & 1 or record_end > data_end:
                raise corrupt(Fault.RECORD_BEYOND_BATCH, index)
            code, position = varint(data, position + 1, INT64_CODES)
            timestamp_delta = (code >> 1) ^ -(code & 1)
            code, position = varint(data, position, INT32_CODES)
            offset_delta = (code >> 1) ^ -(code & 1)
            key, position = nullable_bytes(data, position, record_end)
            value, position = nullable_bytes(data, position, record_end)
            headers_start = position
            if data[position]:
                headers, position = _read_headers(data, position, record_end)
            else:
                headers = ()
                position += 1
        except IndexError as error:
            raise corrupt(Fault.ENDS_WITHIN_RECORD) from error
        if position != record_end:
            raise corrupt(Fault.RECORD_OF_OTHER_SIZE, index)
        yield timestamp_delta, offset_delta, key, value, headers, data[headers_start:record_end]
    if position != data_end:
        raise corrupt(Fault.BYTES_LEFT, data_end - position)


def wrap_int64(number: int) -> int:
    if -INT64_LIMIT <= number < INT64_LIMIT:
        return number
    return (number + INT64_LIMIT) % (2 * INT64_LIMIT) - INT64_LIMIT


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
            raise corrupt(Fault.NUMBER_TOO_LARGE)
        if byte < 0x80:
            return code, position
        shift += 7
        if shift > 63:
            raise corrupt(Fault.NUMBER_WITHOUT_END)


def varint(data: Buffer, position: int, codes: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    return long_varint(data, position, codes)


def nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """A length and so many bytes; every negative length is a null, as Kafka reads it."""
    if (code := data[position]) < 0x80:
        position += 1
    else:
        code, position = long_varint(data, position, INT32_CODES)
    if code & 1:
        return None, position
    stop = position + (code >> 1)
    if stop > end:
        raise corrupt(Fault.FIELD_BEYOND_RECORD)
    return data[position:stop], stop


def _header_count(data: Buffer, position: int, end: int) -> tuple[int, int]:
    code, position = varint(data, position, INT32_CODES)
    count = code >> 1
    # A header takes two bytes at least, so this bounds the loop that follows.
    if code & 1 or count * 2 > end - position:
        raise corrupt(Fault.TOO_MANY_HEADERS)
    return count, position


def _skip_headers(data: Buffer, position: int, end: int) -> int:
    count, position = _header_count(data, position, end)
    for _ in range(count):
        code, position = varint(data, position, INT32_CODES)
        if code & 1:
            raise corrupt(Fault.HEADER_WITHOUT_KEY)
        code, position = varint(data, position + (code >> 1), INT32_CODES)
        if not code & 1:
            position += code >> 1
    return position


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = _header_count(data, position, end)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = nullable_bytes(data, position, end)
        if key is None:
            raise corrupt(Fault.HEADER_WITHOUT_KEY)
        value, position = nullable_bytes(data, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position

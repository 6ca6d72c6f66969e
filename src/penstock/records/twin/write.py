"""Writing records, in plain Python: from objects, from columns, and from records written before.

`renumber_records` and `filter_records` look at a record no further than its offset delta, since
what they are given was checked before; a payload that is not `record_count` records is
CorruptBatch.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct

from penstock.records.fault import Fault, corrupt
from penstock.records.layout import NO_TIMESTAMP, Buffer
from penstock.records.record import Record
from penstock.records.twin.walk import INT32_CODES, INT64_CODES, varint, wrap_int64
from penstock.records.walked import BytesColumn, Encoded, Filtered


def encode_record(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    *,
    timestamp_delta: int,
    offset_delta: int,
) -> bytes:
    """One record as it stands in a batch."""
    encoded_headers = [encode_varint(len(headers))]
    for name, content in headers:
        _add_nullable(encoded_headers, name.encode())
        _add_nullable(encoded_headers, content)
    return _encode(key, value, b"".join(encoded_headers), timestamp_delta, offset_delta)


def encode_records(records: Iterable[Record]) -> Encoded:
    """All of them, numbered from 0; their timestamps are relative to the first one's."""
    payload = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count = 0
    for record in records:
        timestamp = record.timestamp_ms
        if count == 0:
            base_timestamp = timestamp
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        payload += encode_record(
            record.key,
            record.value,
            record.headers,
            timestamp_delta=wrap_int64(timestamp - base_timestamp),
            offset_delta=count,
        )
        count += 1
    return Encoded(payload, count, base_timestamp, max_timestamp)


def encode_columns(
    keys: BytesColumn | None,
    values: BytesColumn | None,
    headers: BytesColumn | None,
    timestamps: Buffer,
    order: Buffer | None,
    start: int,
    stop: int,
    bytes_max: int,
) -> Encoded:
    """Rows [start, stop) as records, as many as take `bytes_max` at most, but one in any case.

    With an order, the numbers of rows as int64, these are the rows that it names from place `start`
    on. A column that is None is null in each row. Headers are encoded already, as `read_columns` or
    `encode_header_columns` give them. A column that contradicts itself is a ValueError.
    """
    times = array("q", memoryview(timestamps).tobytes())
    places = range(len(times)) if order is None else array("q", memoryview(order).tobytes())
    if not 0 <= start <= stop <= len(places):
        raise ValueError(f"rows {start} to {stop} of {len(places)}")
    rows_stop = stop if order is None else len(times)
    columns = [_Rows(column, rows_stop) for column in (keys, values, headers)]
    payload = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count = 0
    for row in places[start:stop]:
        if not 0 <= row < len(times):
            raise ValueError(f"the order names row {row} of {len(times)}")
        key, value, raw_headers = (column.at(row) for column in columns)
        timestamp = times[row]
        if count == 0:
            base_timestamp = timestamp
        record = _encode(
            key, value, raw_headers or NO_HEADERS, wrap_int64(timestamp - base_timestamp), count
        )
        if count and len(payload) + len(record) > bytes_max:
            break
        payload += record
        max_timestamp = max(timestamp, max_timestamp)
        count += 1
    return Encoded(payload, count, base_timestamp, max_timestamp)


def encode_header_columns(names: BytesColumn, contents: BytesColumn, counts: Buffer) -> BytesColumn:
    """The headers of each row as they stand in a record; nothing where there are none. `counts`, as
    int32, says how many each row has, one after the other. A header without a name, and a column
    that contradicts itself, is a ValueError.
    """
    numbers = array("i", memoryview(counts).tobytes())
    for number in numbers:
        if number < 0:
            raise ValueError(f"a row has {number} headers")
    header_count = sum(numbers)
    name_rows, content_rows = _Rows(names, header_count), _Rows(contents, header_count)
    encoded = bytearray()
    offsets = array("q", [0])
    headers = iter(range(header_count))
    for number in numbers:
        parts = [encode_varint(number)] if number else []
        for header in islice(headers, number):
            name, content = name_rows.at(header), content_rows.at(header)
            if name is None:
                raise ValueError("a header without a name")
            _add_nullable(parts, name)
            _add_nullable(parts, content)
        encoded += b"".join(parts)
        offsets.append(len(encoded))
    return BytesColumn(encoded, offsets.tobytes(), offset_bytes=8)


def murmur2(data: Buffer) -> int:
    """The 32-bit MurmurHash2 with the Java client's seed, as an unsigned number."""
    length = len(data)
    tail = length & ~3
    state = MURMUR2_SEED ^ length & MASK
    for (word,) in WORD.iter_unpack(data[:tail]):
        word = word * MULTIPLIER & MASK
        word = (word ^ word >> 24) * MULTIPLIER & MASK
        state = (state * MULTIPLIER & MASK) ^ word
    if tail != length:
        state = (state ^ int.from_bytes(data[tail:], "little")) * MULTIPLIER & MASK
    state = (state ^ state >> 13) * MULTIPLIER & MASK
    return state ^ state >> 15


def partitions_of(keys: BytesColumn, partition_count: int, start: int, stop: int) -> bytes:
    """The partition of each row by its key, as int32; -1 where the key is null."""
    assert partition_count > 0, partition_count
    rows = _Rows(keys, stop)
    if not 0 <= start <= stop:
        raise ValueError(f"rows {start} to {stop}")
    partitions = array("i")
    for row in range(start, stop):
        key = rows.at(row)
        partitions.append(-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count)
    return partitions.tobytes()


def renumber_records(payload: Buffer, record_count: int) -> bytearray:
    """The same records with offset deltas 0, 1, 2 and so on."""
    data = bytes(payload)
    renumbered = bytearray()
    for index, (_, start, _, delta_start, delta_end, end) in enumerate(_spans(data, record_count)):
        body = data[start:delta_start] + encode_varint(index) + data[delta_end:end]
        renumbered += encode_varint(len(body))
        renumbered += body
    return renumbered


def filter_records(
    payload: Buffer,
    record_count: int,
    keep: Buffer,
    base_timestamp: int,
    new_base_timestamp: int,
) -> Filtered:
    """Those records whose byte in `keep` is not 0, for a batch with another base timestamp.

    Offset deltas stay as they are, and timestamps do: their deltas follow the new base.
    """
    assert len(keep) == record_count, (len(keep), record_count)
    data = bytes(payload)
    kept = bytearray()
    kept_count = 0
    max_timestamp = NO_TIMESTAMP
    spans = enumerate(_spans(data, record_count))
    for index, (record_start, start, timestamp_delta, delta_start, _, end) in spans:
        if not keep[index]:
            continue
        kept_count += 1
        timestamp = wrap_int64(base_timestamp + timestamp_delta)
        max_timestamp = max(timestamp, max_timestamp)
        if new_base_timestamp == base_timestamp:
            kept += data[record_start:end]
            continue
        delta = encode_varint(wrap_int64(timestamp - new_base_timestamp))
        body = data[start : start + 1] + delta + data[delta_start:end]
        kept += encode_varint(len(body))
        kept += body
    return Filtered(kept, kept_count, max_timestamp)


def _spans(data: bytes, record_count: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Where each record, its body and its offset delta start and end, and its timestamp delta."""
    data_end = len(data)
    position = 0
    for index in range(record_count):
        record_start = position
        try:
            code, start = varint(data, position, INT32_CODES)
            position = start + (code >> 1)
            if code & 1 or position > data_end:
                raise corrupt(Fault.RECORD_BEYOND_BATCH, index)
            code, delta_start = varint(data, start + 1, INT64_CODES)
            _, delta_end = varint(data, delta_start, INT32_CODES)
        except IndexError as error:
            raise corrupt(Fault.ENDS_WITHIN_RECORD) from error
        if delta_end > position:
            raise corrupt(Fault.RECORD_OF_OTHER_SIZE, index)
        timestamp_delta = (code >> 1) ^ -(code & 1)
        yield record_start, start, timestamp_delta, delta_start, delta_end, position
    if position != data_end:
        raise corrupt(Fault.BYTES_LEFT, data_end - position)


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
NULL = encode_varint(-1)
NO_HEADERS = encode_varint(0)

MURMUR2_SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF
WORD = Struct("<I")


class _Rows:
    """A column of bytes, row by row."""

    def __init__(self, column: BytesColumn | None, stop: int) -> None:
        self._column = column
        if column is None:
            return
        self._data = memoryview(column.data).cast("B")
        self._offsets = array(
            "i" if column.offset_bytes == 4 else "q", memoryview(column.offsets).tobytes()
        )
        if column.start < 0 or column.start + stop >= len(self._offsets):
            raise ValueError("a column has too few offsets")
        if column.validity is not None:
            self._validity = memoryview(column.validity).cast("B")
            if column.start + stop > 8 * len(self._validity):
                raise ValueError("a column has too few bits of validity")

    def at(self, row: int) -> bytes | None:
        if self._column is None:
            return None
        row += self._column.start
        if self._column.validity is not None and not self._validity[row >> 3] >> (row & 7) & 1:
            return None
        start, end = self._offsets[row], self._offsets[row + 1]
        if not 0 <= start <= end <= len(self._data):
            raise ValueError("an offset of a column points beyond its data")
        return bytes(self._data[start:end])


def _encode(
    key: bytes | None,
    value: bytes | None,
    encoded_headers: bytes,
    timestamp_delta: int,
    offset_delta: int,
) -> bytes:
    parts = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    _add_nullable(parts, key)
    _add_nullable(parts, value)
    parts.append(encoded_headers)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _add_nullable(parts: list[bytes], content: bytes | None) -> None:
    if content is None:
        parts.append(NULL)
    else:
        parts.append(encode_varint(len(content)))
        parts.append(content)

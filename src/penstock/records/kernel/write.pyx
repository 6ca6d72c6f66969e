# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""Writing records, compiled; `twin/write.py` says what each function promises.

What is written first has its room: a record made of objects or rows is measured, then written, from
values that can't change in between; what comes out of another payload can't be longer than that
payload by more than a known number of bytes a record.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from penstock.records.kernel.varint cimport *

from penstock.records.fault import corrupt
from penstock.records.walked import BytesColumn, Encoded, Filtered

cdef enum:
    NO_TIMESTAMP = -1
    # A new offset delta of five bytes instead of one, and a length with one byte more.
    RENUMBERED_GROWTH_MAX = 5
    # A new timestamp delta of ten bytes instead of one, and a length with one byte more.
    REBASED_GROWTH_MAX = 10

cdef uint32_t MULTIPLIER = 0x5BD1E995  # of murmur2


cdef struct Part:
    const uint8_t* data
    Py_ssize_t size  # -1: null


def encode_records(records):
    cdef bytearray payload = bytearray()
    cdef Py_ssize_t used = 0
    cdef Py_ssize_t body
    cdef int64_t count = 0
    cdef int64_t timestamp
    cdef int64_t delta
    cdef int64_t base_timestamp = NO_TIMESTAMP
    cdef int64_t max_timestamp = NO_TIMESTAMP
    cdef bytes encoded_headers
    cdef Part parts[3]
    cdef uint8_t* out
    for key, value, headers, timestamp_ms, _ in records:
        timestamp = timestamp_ms
        if count == 0:
            base_timestamp = timestamp
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if key is not None and type(key) is not bytes:
            key = bytes_of(key)
        if value is not None and type(value) is not bytes:
            value = bytes_of(value)
        encoded_headers = encode_headers(headers) if headers else None
        set_part(&parts[0], key)
        set_part(&parts[1], value)
        set_part(&parts[2], encoded_headers)
        delta = difference_of(timestamp, base_timestamp)
        body = body_bytes(parts, delta, count)
        out = room(payload, used, varint_bytes(body) + body)
        used += write_record(out, parts, body, delta, count) - out
        count += 1
    PyByteArray_Resize(payload, used)
    return Encoded(payload, count, base_timestamp, max_timestamp)


cdef bytes bytes_of(content):
    """Of any bytes-like object; a TypeError for others, of which a number would be so many zeros."""
    return bytes(memoryview(content))


cdef bytes encode_headers(headers):
    cdef bytearray encoded = bytearray()
    cdef Py_ssize_t used = 0
    used = append_number(encoded, used, len(headers))
    for name, content in headers:
        used = append_bytes(encoded, used, (<str?> name).encode())
        if content is None:
            used = append_number(encoded, used, -1)
        else:
            used = append_bytes(
                encoded, used, content if type(content) is bytes else bytes_of(content)
            )
    return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(encoded), used)


cdef Py_ssize_t append_number(bytearray encoded, Py_ssize_t used, int64_t number) except -1:
    cdef uint8_t* out = room(encoded, used, VARINT_BYTES_MAX)
    return used + (write_varint(out, number) - out)


cdef Py_ssize_t append_bytes(bytearray encoded, Py_ssize_t used, bytes content) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(content)
    used = append_number(encoded, used, size)
    memcpy(room(encoded, used, size), PyBytes_AS_STRING(content), size)
    return used + size


cdef inline void set_part(Part* part, content) noexcept:
    """The content is None or bytes, and stays referred to while the part is in use."""
    if content is None:
        part.data = NULL
        part.size = -1
    else:
        part.data = <const uint8_t*> PyBytes_AS_STRING(content)
        part.size = PyBytes_GET_SIZE(content)


cdef inline uint8_t* room(bytearray out, Py_ssize_t used, Py_ssize_t more) except NULL:
    """Where to write after the first `used` bytes; `more` bytes have room there."""
    if used + more > PyByteArray_GET_SIZE(out):
        PyByteArray_Resize(out, (used + more) * 2)
    return <uint8_t*> PyByteArray_AS_STRING(out) + used


cdef inline Py_ssize_t body_bytes(
    const Part* parts, int64_t timestamp_delta, int64_t offset_delta
) noexcept nogil:
    """The size of a record with this key, value and encoded headers, without its length."""
    return (
        1
        + varint_bytes(timestamp_delta)
        + varint_bytes(offset_delta)
        + varint_bytes(parts[0].size)
        + max(parts[0].size, 0)
        + varint_bytes(parts[1].size)
        + max(parts[1].size, 0)
        + max(parts[2].size, 1)
    )


cdef inline uint8_t* append_part(uint8_t* out, const Part* part) noexcept nogil:
    out = write_varint(out, part.size)
    if part.size > 0:
        memcpy(out, part.data, part.size)
        out += part.size
    return out


cdef inline uint8_t* write_record(
    uint8_t* out,
    const Part* parts,
    Py_ssize_t body,
    int64_t timestamp_delta,
    int64_t offset_delta,
) noexcept nogil:
    """Writes the length `body` and so many bytes, and gives the place after them."""
    cdef int at
    out = write_varint(out, body)
    out[0] = 0  # attributes
    out = write_varint(out + 1, timestamp_delta)
    out = write_varint(out, offset_delta)
    for at in range(2):
        out = append_part(out, &parts[at])
    if parts[2].size > 0:
        memcpy(out, parts[2].data, parts[2].size)
        return out + parts[2].size
    out[0] = 0  # no headers
    return out + 1


def encode_columns(
    keys, values, headers, timestamps, order, Py_ssize_t start, Py_ssize_t stop,
    Py_ssize_t bytes_max,
):
    cdef Lent times_lent = Lent(timestamps)
    cdef const uint8_t* times = times_lent.data
    cdef Py_ssize_t row_count = times_lent.size // <Py_ssize_t> sizeof(int64_t)
    if times_lent.size % sizeof(int64_t):
        raise ValueError("timestamps that are not of 8 bytes each")
    cdef Lent order_lent = None
    cdef Py_ssize_t position_count = row_count
    if order is not None:
        order_lent = Lent(order)
        if order_lent.size % sizeof(int64_t):
            raise ValueError("an order that is not of 8 bytes for each row")
        position_count = order_lent.size // <Py_ssize_t> sizeof(int64_t)
    if not 0 <= start <= stop <= position_count:
        raise ValueError(f"rows {start} to {stop} of {position_count}")
    cdef Py_ssize_t rows_stop = stop if order_lent is None else row_count
    cdef Rows key_rows = Rows(keys, rows_stop)
    cdef Rows value_rows = Rows(values, rows_stop)
    cdef Rows header_rows = Rows(headers, rows_stop)
    cdef bytearray payload = bytearray()
    cdef Py_ssize_t used = 0
    cdef Py_ssize_t body
    cdef Py_ssize_t size
    cdef Py_ssize_t position
    cdef int64_t row
    cdef int64_t count = 0
    cdef int64_t timestamp = 0
    cdef int64_t delta
    cdef int64_t base_timestamp = NO_TIMESTAMP
    cdef int64_t max_timestamp = NO_TIMESTAMP
    cdef Part parts[3]
    for position in range(start, stop):
        row = position
        if order_lent is not None:
            memcpy(&row, order_lent.data + position * sizeof(int64_t), sizeof(int64_t))
            if not 0 <= row < row_count:
                raise ValueError(f"the order names row {row} of {row_count}")
        if not (
            key_rows.read(row, &parts[0])
            and value_rows.read(row, &parts[1])
            and header_rows.read(row, &parts[2])
        ):
            raise ValueError("an offset of a column points beyond its data")
        memcpy(&timestamp, times + row * sizeof(int64_t), sizeof(int64_t))
        if count == 0:
            base_timestamp = timestamp
        delta = difference_of(timestamp, base_timestamp)
        body = body_bytes(parts, delta, count)
        size = varint_bytes(body) + body
        if count and used + size > bytes_max:
            break
        write_record(room(payload, used, size), parts, body, delta, count)
        used += size
        max_timestamp = max(timestamp, max_timestamp)
        count += 1
    PyByteArray_Resize(payload, used)
    return Encoded(payload, count, base_timestamp, max_timestamp)


def encode_header_columns(names, contents, counts):
    cdef Lent counts_lent = Lent(counts)
    if counts_lent.size % sizeof(int32_t):
        raise ValueError("counts that are not of 4 bytes each")
    cdef Py_ssize_t row_count = counts_lent.size // <Py_ssize_t> sizeof(int32_t)
    cdef Py_ssize_t row
    cdef Py_ssize_t header = 0
    cdef Py_ssize_t header_end = 0
    cdef Py_ssize_t header_count = 0
    cdef int32_t count = 0
    for row in range(row_count):
        memcpy(&count, counts_lent.data + row * sizeof(int32_t), sizeof(int32_t))
        if count < 0:
            raise ValueError(f"a row has {count} headers")
        header_count += count
    cdef Rows name_rows = Rows(names, header_count)
    cdef Rows content_rows = Rows(contents, header_count)
    cdef bytearray encoded = bytearray()
    cdef bytearray offsets = bytearray()
    PyByteArray_Resize(offsets, (row_count + 1) * sizeof(int64_t))
    cdef uint8_t* offset_out = <uint8_t*> PyByteArray_AS_STRING(offsets)
    cdef int64_t used = 0
    cdef Part name, content
    cdef uint8_t* out
    memcpy(offset_out, &used, sizeof(int64_t))
    for row in range(row_count):
        memcpy(&count, counts_lent.data + row * sizeof(int32_t), sizeof(int32_t))
        if count:
            used = append_number(encoded, used, count)
        header_end += count
        while header < header_end:
            if not (name_rows.read(header, &name) and content_rows.read(header, &content)):
                raise ValueError("an offset of a column points beyond its data")
            if name.size < 0:
                raise ValueError("a header without a name")
            out = room(encoded, used, 2 * VARINT_BYTES_MAX + name.size + max(content.size, 0))
            out = append_part(append_part(out, &name), &content)
            used = out - <uint8_t*> PyByteArray_AS_STRING(encoded)
            header += 1
        memcpy(offset_out + (row + 1) * sizeof(int64_t), &used, sizeof(int64_t))
    PyByteArray_Resize(encoded, used)
    return BytesColumn(encoded, offsets, sizeof(int64_t), None, 0)


cdef class Lent:
    """A buffer of somebody else's, held as long as this lives."""

    cdef Py_buffer buffer
    cdef bint held
    cdef const uint8_t* data
    cdef Py_ssize_t size

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        self.data = <const uint8_t*> self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef class Rows:
    """A column of bytes, row by row; rows below `stop` have their offsets and validity."""

    cdef Lent data
    cdef Lent offsets
    cdef Lent validity
    cdef bint wide
    cdef Py_ssize_t start

    def __cinit__(self, column, Py_ssize_t stop):
        if column is None:
            return
        self.data = Lent(column.data)
        self.offsets = Lent(column.offsets)
        self.wide = column.offset_bytes != sizeof(int32_t)
        self.start = column.start
        cdef Py_ssize_t width = sizeof(int64_t) if self.wide else sizeof(int32_t)
        if self.offsets.size % width:
            raise ValueError(f"offsets that are not of {width} bytes each")
        if self.start < 0 or stop >= self.offsets.size // width - self.start:
            raise ValueError("a column has too few offsets")
        if column.validity is not None:
            self.validity = Lent(column.validity)
            if self.start + stop > 8 * self.validity.size:
                raise ValueError("a column has too few bits of validity")

    cdef bint read(self, Py_ssize_t row, Part* part) noexcept:
        """False when the column contradicts itself."""
        cdef int64_t start, end
        cdef int32_t narrow[2]
        cdef int64_t pair[2]
        part.data = NULL
        part.size = -1
        if self.data is None:
            return True
        row += self.start
        if self.validity is not None and not self.validity.data[row >> 3] >> (row & 7) & 1:
            return True
        if self.wide:
            memcpy(pair, self.offsets.data + row * sizeof(int64_t), sizeof(pair))
            start, end = pair[0], pair[1]
        else:
            memcpy(narrow, self.offsets.data + row * sizeof(int32_t), sizeof(narrow))
            start, end = narrow[0], narrow[1]
        if not 0 <= start <= end <= self.data.size:
            return False
        part.data = self.data.data + start
        part.size = end - start
        return True


def murmur2(data):
    cdef Lent lent = Lent(data)
    return hash_of(lent.data, lent.size)


def partitions_of(keys, int32_t partition_count, Py_ssize_t start, Py_ssize_t stop):
    assert partition_count > 0, partition_count
    cdef Rows rows = Rows(keys, stop)
    if not 0 <= start <= stop:
        raise ValueError(f"rows {start} to {stop}")
    cdef bytes partitions = PyBytes_FromStringAndSize(NULL, (stop - start) * sizeof(int32_t))
    cdef int32_t* out = <int32_t*> PyBytes_AS_STRING(partitions)
    cdef Py_ssize_t row
    cdef Part part
    for row in range(start, stop):
        if not rows.read(row, &part):
            raise ValueError("an offset of a column points beyond its data")
        if part.size < 0:
            out[row - start] = -1
        else:
            out[row - start] = <int32_t> (
                (hash_of(part.data, part.size) & 0x7FFFFFFF) % <uint32_t> partition_count
            )
    return partitions


cdef uint32_t hash_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t state = <uint32_t> 0x9747B28C ^ <uint32_t> size
    cdef uint32_t word
    cdef Py_ssize_t at
    for at in range(0, size & ~3, 4):
        word = word_at(data + at) * MULTIPLIER
        word = (word ^ word >> 24) * MULTIPLIER
        state = (state * MULTIPLIER) ^ word
    if size & 3:
        data += size & ~3
        word = data[0]
        if size & 3 > 1:
            word |= <uint32_t> data[1] << 8
        if size & 3 > 2:
            word |= <uint32_t> data[2] << 16
        state = (state ^ word) * MULTIPLIER
    state = (state ^ state >> 13) * MULTIPLIER
    return state ^ state >> 15


def renumber_records(payload, int64_t record_count):
    cdef Lent source = Lent(payload)
    cdef int64_t records_max = min(max(record_count, 0), source.size)
    cdef bytearray renumbered = bytearray()
    PyByteArray_Resize(renumbered, source.size + records_max * RENUMBERED_GROWTH_MAX)
    cdef uint8_t* start = <uint8_t*> PyByteArray_AS_STRING(renumbered)
    cdef uint8_t* out = start
    cdef Py_ssize_t position = 0
    cdef Span span
    cdef int fault
    cdef int64_t index
    for index in range(record_count):
        fault = read_span(source.data, source.size, &position, &span)
        if fault:
            raise corrupt(fault, index)
        out = write_varint(
            out,
            span.delta_start - span.start + varint_bytes(index) + span.end - span.delta_end,
        )
        memcpy(out, source.data + span.start, span.delta_start - span.start)
        out = write_varint(out + (span.delta_start - span.start), index)
        memcpy(out, source.data + span.delta_end, span.end - span.delta_end)
        out += span.end - span.delta_end
    if position != source.size:
        raise corrupt(BYTES_LEFT, source.size - position)
    PyByteArray_Resize(renumbered, out - start)
    return renumbered


def filter_records(
    payload, int64_t record_count, keep, int64_t base_timestamp, int64_t new_base_timestamp
):
    cdef Lent source = Lent(payload)
    cdef Lent kept_lent = Lent(keep)
    assert kept_lent.size == record_count, (kept_lent.size, record_count)
    cdef bint rebased = base_timestamp != new_base_timestamp
    cdef bytearray kept = bytearray()
    PyByteArray_Resize(
        kept,
        source.size + (min(record_count, source.size) * REBASED_GROWTH_MAX if rebased else 0),
    )
    cdef Filter work
    work.data = source.data
    work.data_end = source.size
    work.keep = kept_lent.data
    work.record_count = record_count
    work.base_timestamp = base_timestamp
    work.new_base_timestamp = new_base_timestamp
    work.out = <uint8_t*> PyByteArray_AS_STRING(kept)
    if source.size > LONG_BYTES:
        with nogil:
            copy_kept(&work)
    else:
        copy_kept(&work)
    if work.fault:
        raise corrupt(work.fault, work.index)
    PyByteArray_Resize(kept, work.out - <uint8_t*> PyByteArray_AS_STRING(kept))
    return Filtered(kept, work.kept_count, work.max_timestamp)


cdef struct Filter:
    const uint8_t* data
    Py_ssize_t data_end
    const uint8_t* keep
    int64_t record_count
    int64_t base_timestamp
    int64_t new_base_timestamp
    uint8_t* out
    int64_t kept_count
    int64_t max_timestamp
    int fault
    int64_t index


cdef void copy_kept(Filter* work) noexcept nogil:
    cdef Py_ssize_t position = 0
    cdef Span span
    cdef int64_t timestamp
    cdef int64_t delta
    cdef bint rebased = work.base_timestamp != work.new_base_timestamp
    work.kept_count = 0
    work.max_timestamp = NO_TIMESTAMP
    work.index = 0
    while work.index < work.record_count:
        work.fault = read_span(work.data, work.data_end, &position, &span)
        if work.fault:
            return
        if work.keep[work.index]:
            work.kept_count += 1
            timestamp = sum_of(work.base_timestamp, span.timestamp_delta)
            work.max_timestamp = max(timestamp, work.max_timestamp)
            if rebased:
                delta = difference_of(timestamp, work.new_base_timestamp)
                work.out = write_varint(
                    work.out, 1 + varint_bytes(delta) + span.end - span.delta_start
                )
                work.out[0] = work.data[span.start]
                work.out = write_varint(work.out + 1, delta)
                span.record_start = span.delta_start
            memcpy(work.out, work.data + span.record_start, span.end - span.record_start)
            work.out += span.end - span.record_start
        work.index += 1
    work.fault = 0
    if position != work.data_end:
        work.fault = BYTES_LEFT
        work.index = work.data_end - position


cdef struct Span:
    Py_ssize_t record_start
    Py_ssize_t start  # after the length
    int64_t timestamp_delta
    Py_ssize_t delta_start  # of the offset
    Py_ssize_t delta_end
    Py_ssize_t end


cdef inline int read_span(
    const uint8_t* data, Py_ssize_t data_end, Py_ssize_t* position, Span* span
) noexcept nogil:
    cdef uint64_t code = 0
    cdef Py_ssize_t at = position[0]
    cdef int fault
    span.record_start = at
    fault = read_code32(data, data_end, &at, &code)
    if fault:
        return fault
    span.start = at
    span.end = at + <Py_ssize_t> (code >> 1)
    if code & 1 or span.end > data_end:
        return RECORD_BEYOND_BATCH
    at += 1  # attributes
    fault = read_code64(data, data_end, &at, &code)
    if fault:
        return fault
    span.timestamp_delta = number_of(code)
    span.delta_start = at
    fault = read_code32(data, data_end, &at, &code)
    if fault:
        return fault
    span.delta_end = at
    if at > span.end:
        return RECORD_OF_OTHER_SIZE
    position[0] = span.end
    return 0

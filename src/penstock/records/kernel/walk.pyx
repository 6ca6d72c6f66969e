# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""Reading single records, compiled; `twin/walk.py` says what each function promises.

Every byte is read through `varint.pxd` and `fields.pxd`, or after a comparison with the end, so that
no bytes of others make it look outside of the payload. The walks run without Python objects; a fault
comes back as a number and is raised here.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from penstock.records.kernel.fields cimport *
from penstock.records.kernel.varint cimport *

from penstock.model.limit import RECORD_ERRORS_MAX
from penstock.records.fault import corrupt
from penstock.records.record import Record
from penstock.records.walked import BytesColumn, RecordColumns, Walked

cdef enum:
    LISTED_MAX = 1000
    NO_TIMESTAMP = -1

assert LISTED_MAX == RECORD_ERRORS_MAX

cdef extern from *:
    """
    /* Room for a tuple of a class derived from tuple, its items yet to be set. */
    static PyObject* new_named(PyObject* cls, Py_ssize_t size) {
        return ((PyTypeObject*)cls)->tp_alloc((PyTypeObject*)cls, size);
    }
    """
    object new_named(object cls, Py_ssize_t size)


cdef struct Check:
    int fault
    int64_t index
    Py_ssize_t position
    int64_t timestamp_max
    bint offsets_dense
    int64_t keyless_count
    int64_t untimely_count
    int64_t keyless[LISTED_MAX]
    int64_t untimely[LISTED_MAX]
    int64_t untimely_timestamps[LISTED_MAX]


def check_records(
    payload,
    int64_t record_count,
    int64_t base_timestamp,
    int64_t timestamp_low,
    int64_t timestamp_high,
    bint key_required,
):
    cdef Py_buffer buffer
    cdef Check seen
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        if buffer.len > LONG_BYTES:
            with nogil:
                check(<const uint8_t*> buffer.buf, buffer.len, record_count, base_timestamp,
                      timestamp_low, timestamp_high, key_required, &seen)
        else:
            check(<const uint8_t*> buffer.buf, buffer.len, record_count, base_timestamp,
                  timestamp_low, timestamp_high, key_required, &seen)
        if not seen.fault and seen.position != buffer.len:
            seen.fault = BYTES_LEFT
            seen.index = buffer.len - seen.position
    finally:
        PyBuffer_Release(&buffer)
    if seen.fault:
        raise corrupt(seen.fault, seen.index)
    cdef int64_t at
    cdef list keyless = []
    cdef list untimely = []
    if seen.keyless_count or seen.untimely_count:
        for at in range(min(seen.keyless_count, LISTED_MAX)):
            keyless.append(seen.keyless[at])
        for at in range(min(seen.untimely_count, LISTED_MAX)):
            untimely.append((seen.untimely[at], seen.untimely_timestamps[at]))
    walked = new_named(Walked, 6)
    set_item(walked, 0, seen.timestamp_max)
    set_item(walked, 1, seen.offsets_dense)
    set_item(walked, 2, seen.keyless_count)
    set_item(walked, 3, seen.untimely_count)
    set_item(walked, 4, keyless)
    set_item(walked, 5, untimely)
    return walked


cdef void check(
    const uint8_t* data,
    Py_ssize_t data_end,
    int64_t record_count,
    int64_t base_timestamp,
    int64_t timestamp_low,
    int64_t timestamp_high,
    bint key_required,
    Check* seen,
) noexcept nogil:
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t record_end
    cdef uint64_t code = 0
    cdef int64_t index = 0
    cdef int64_t delta
    cdef int64_t timestamp
    cdef int64_t timestamp_max = NO_TIMESTAMP
    cdef bint offsets_dense = True
    cdef bint timely
    cdef bint overflowed
    cdef int fault = 0
    seen.keyless_count = seen.untimely_count = 0
    for index in range(record_count):
        fault = read_code32(data, data_end, &position, &code)
        if fault:
            break
        record_end = position + <Py_ssize_t> (code >> 1)
        if code & 1 or record_end > data_end:
            fault = RECORD_BEYOND_BATCH
            break

        position += 1  # attributes, of which none is in use
        fault = read_code64(data, data_end, &position, &code)
        if fault:
            break
        delta = number_of(code)
        timestamp = sum_of(base_timestamp, delta)
        overflowed = ((base_timestamp ^ timestamp) & (delta ^ timestamp)) < 0
        timely = timestamp_low <= timestamp <= timestamp_high and not overflowed
        if timely and timestamp > timestamp_max:
            timestamp_max = timestamp

        fault = read_code32(data, data_end, &position, &code)
        if fault:
            break
        if code != <uint64_t> index << 1:
            offsets_dense = False

        fault = read_code32(data, data_end, &position, &code)  # the key
        if fault:
            break
        if not code & 1:
            position += <Py_ssize_t> (code >> 1)
        if code & 1 and key_required:
            if seen.keyless_count < LISTED_MAX:
                seen.keyless[seen.keyless_count] = index
            seen.keyless_count += 1
        elif not timely and (timestamp != NO_TIMESTAMP or overflowed):
            if seen.untimely_count < LISTED_MAX:
                seen.untimely[seen.untimely_count] = index
                seen.untimely_timestamps[seen.untimely_count] = timestamp
            seen.untimely_count += 1

        fault = read_code32(data, data_end, &position, &code)  # the value
        if fault:
            break
        if not code & 1:
            position += <Py_ssize_t> (code >> 1)

        if position < data_end and data[position] == 0:
            position += 1
        else:
            fault = skip_headers(data, data_end, &position, record_end, False)
            if fault:
                break
        if position != record_end:
            fault = RECORD_OF_OTHER_SIZE
            break
    seen.fault = fault
    seen.index = index
    seen.position = position
    seen.timestamp_max = timestamp_max
    seen.offsets_dense = offsets_dense


def read_records(
    payload,
    int64_t record_count,
    int64_t base_offset,
    int64_t base_timestamp,
    fixed_timestamp,
):
    cdef RecordReader reader = RecordReader.__new__(RecordReader)
    reader.data = bytes(payload)
    reader.record_count = record_count
    reader.base_offset = base_offset
    reader.base_timestamp = base_timestamp
    reader.fixed_timestamp = fixed_timestamp
    return reader


cdef class RecordReader:
    """Gives one record after the other."""

    cdef bytes data
    cdef Py_ssize_t position
    cdef int64_t index
    cdef int64_t record_count
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef object fixed_timestamp
    cdef bint ended

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(self.data)
        cdef Py_ssize_t data_end = len(self.data)
        cdef Fields fields
        cdef int fault
        if self.ended:
            raise StopIteration
        if self.index >= self.record_count:
            self.ended = True
            if self.position != data_end:
                raise corrupt(BYTES_LEFT, data_end - self.position)
            raise StopIteration
        fault = read_fields(data, data_end, &self.position, &fields)
        if fault:
            self.ended = True
            raise corrupt(fault, self.index)
        self.index += 1
        timestamp = self.fixed_timestamp
        if timestamp is None:
            timestamp = sum_of(self.base_timestamp, fields.timestamp_delta)
        headers = ()
        if data[fields.headers_start]:
            headers = headers_of(data, fields.headers_start, fields.record_end)
        record = new_named(Record, 5)
        set_item(record, 0, nullable_bytes(data, fields.key_start, fields.key_bytes))
        set_item(record, 1, nullable_bytes(data, fields.value_start, fields.value_bytes))
        set_item(record, 2, headers)
        set_item(record, 3, timestamp)
        set_item(record, 4, sum_of(self.base_offset, fields.offset_delta))
        return record


cdef tuple headers_of(const uint8_t* data, Py_ssize_t position, Py_ssize_t end):
    """The headers that `read_fields` has been through."""
    cdef uint64_t code = 0
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t size = 0
    cdef list headers = []
    read_code32(data, end, &position, &code)
    for _ in range(<int64_t> (code >> 1)):
        read_nullable(data, end, &position, end, &start, &size)
        name = PyUnicode_DecodeUTF8(<char*> data + start, size, "replace")
        read_nullable(data, end, &position, end, &start, &size)
        headers.append((name, nullable_bytes(data, start, size)))
    return tuple(headers)


cdef inline object nullable_bytes(const uint8_t* data, Py_ssize_t start, Py_ssize_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<char*> data + start, size)


cdef inline void set_item(object named, Py_ssize_t index, object item):
    Py_INCREF(item)  # the tuple takes over a reference
    PyTuple_SET_ITEM(named, index, item)


def read_columns(
    payload,
    int64_t record_count,
    int64_t base_offset,
    int64_t base_timestamp,
    fixed_timestamp,
):
    cdef bytes held = bytes(payload)  # nobody changes it between the two walks
    cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(held)
    cdef Py_ssize_t data_end = len(held)
    cdef int64_t fixed = 0 if fixed_timestamp is None else fixed_timestamp
    cdef Sizes sizes
    cdef Columns into
    cdef int fault
    with nogil:
        fault = measure(data, data_end, record_count, &sizes)
    if fault:
        raise corrupt(fault, sizes.index)
    cdef Py_ssize_t rows = sizes.index
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, rows * sizeof(int64_t))
    cdef bytes timestamps = PyBytes_FromStringAndSize(NULL, rows * sizeof(int64_t))
    into.offsets = <int64_t*> PyBytes_AS_STRING(offsets)
    into.timestamps = <int64_t*> PyBytes_AS_STRING(timestamps)
    keys = new_column(sizes.keys, rows, &into.keys)
    values = new_column(sizes.values, rows, &into.values)
    headers = new_column(sizes.headers, rows, &into.headers)
    with nogil:
        fill(data, data_end, rows, base_offset, base_timestamp, &into)
    cdef Py_ssize_t row
    if fixed_timestamp is not None:
        for row in range(rows):
            into.timestamps[row] = fixed
    return RecordColumns(
        rows, offsets, timestamps, keys, values, headers._replace(validity=None)
    )


cdef struct Sizes:
    int64_t index
    Py_ssize_t keys
    Py_ssize_t values
    Py_ssize_t headers


cdef struct Column:
    uint8_t* data
    int32_t* offsets
    uint8_t* validity
    Py_ssize_t end


cdef struct Columns:
    int64_t* offsets
    int64_t* timestamps
    Column keys
    Column values
    Column headers


cdef int measure(
    const uint8_t* data, Py_ssize_t data_end, int64_t record_count, Sizes* sizes
) noexcept nogil:
    """How much each column will hold; `index` is that of the faulty record, or the row count."""
    cdef Py_ssize_t position = 0
    cdef Fields fields
    cdef int fault
    memset(sizes, 0, sizeof(Sizes))
    while sizes.index < record_count:
        fault = read_fields(data, data_end, &position, &fields)
        if fault:
            return fault
        sizes.keys += max(fields.key_bytes, 0)
        sizes.values += max(fields.value_bytes, 0)
        sizes.headers += fields.record_end - fields.headers_start
        sizes.index += 1
    if position != data_end:
        sizes.index = data_end - position
        return BYTES_LEFT
    return 0


cdef object new_column(Py_ssize_t data_bytes, Py_ssize_t rows, Column* column):
    cdef bytes data = PyBytes_FromStringAndSize(NULL, data_bytes)
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, (rows + 1) * sizeof(int32_t))
    cdef bytes validity = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    assert data_bytes < 1 << 31, "a payload is bounded far below"
    column.data = <uint8_t*> PyBytes_AS_STRING(data)
    column.offsets = <int32_t*> PyBytes_AS_STRING(offsets)
    column.validity = <uint8_t*> PyBytes_AS_STRING(validity)
    column.end = 0
    column.offsets[0] = 0
    memset(column.validity, 0, len(validity))
    return BytesColumn(data, offsets, sizeof(int32_t), validity)


cdef void fill(
    const uint8_t* data,
    Py_ssize_t data_end,
    Py_ssize_t rows,
    int64_t base_offset,
    int64_t base_timestamp,
    Columns* into,
) noexcept nogil:
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t row
    cdef Fields fields
    for row in range(rows):
        read_fields(data, data_end, &position, &fields)
        into.offsets[row] = sum_of(base_offset, fields.offset_delta)
        into.timestamps[row] = sum_of(base_timestamp, fields.timestamp_delta)
        put(&into.keys, row, data + fields.key_start, fields.key_bytes)
        put(&into.values, row, data + fields.value_start, fields.value_bytes)
        put(&into.headers, row, data + fields.headers_start,
            fields.record_end - fields.headers_start)


cdef inline void put(
    Column* column, Py_ssize_t row, const uint8_t* content, Py_ssize_t size
) noexcept nogil:
    if size >= 0:
        memcpy(column.data + column.end, content, size)
        column.end += size
        column.validity[row >> 3] |= <uint8_t> (1 << (row & 7))
    column.offsets[row + 1] = <int32_t> column.end

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""Records of many batches as columns, compiled; `twin/columns.py` says what is promised.

Two walks over all payloads without Python objects: the first finds out how much there is, and every
fault; the second fills. Copy 1 of 1: from the payload into the column. Whoever changed a payload in
between would be found out by the bounds that the first walk has set.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from penstock.records.kernel.fields cimport *
from penstock.records.kernel.varint cimport *

from penstock.records.fault import corrupt
from penstock.records.gathered import GatheredColumns, HeaderColumns
from penstock.records.walked import BytesColumn

cdef extern from "stdint.h" nogil:
    const int64_t INT64_MAX

cdef enum:
    COLUMN_BYTES_MAX = 2147483647
    COLUMN_FULL = 100  # beyond the faults of records: the payload is not what it was


cdef struct Source:
    Py_buffer buffer
    bint held
    int64_t record_count
    int64_t base_offset
    int64_t base_timestamp
    bint fixed
    int64_t fixed_timestamp


cdef struct Column:
    uint8_t* data
    int32_t* ends  # of row i at i + 1
    uint8_t* validity
    Py_ssize_t size
    Py_ssize_t data_end
    Py_ssize_t rows
    Py_ssize_t row
    Py_ssize_t nulls


cdef struct Work:
    int64_t start_offset
    int64_t end_offset
    int64_t rows
    int64_t row
    int64_t* offsets
    int64_t* timestamps
    int64_t timestamp_factor
    int64_t timestamp_bound
    bint with_keys
    bint with_values
    bint with_headers
    Column keys
    Column values
    Column header_keys
    Column header_values
    int32_t* bounds
    uint8_t* bounds_validity
    int64_t index  # of a faulty record, or how many bytes are left


def gather_columns(
    payloads,
    int64_t start_offset,
    int64_t end_offset,
    bint keys,
    bint values,
    bint headers,
    int64_t timestamp_factor=1,
):
    cdef Py_ssize_t count = len(payloads)
    cdef Py_ssize_t at
    cdef int fault = 0
    cdef Work work
    cdef Source* sources = <Source*> PyMem_Calloc(max(count, 1), sizeof(Source))
    if sources == NULL:
        raise MemoryError
    memset(&work, 0, sizeof(Work))
    work.start_offset, work.end_offset = start_offset, end_offset
    assert timestamp_factor > 0, "of times"
    work.timestamp_factor = timestamp_factor
    work.timestamp_bound = INT64_MAX // timestamp_factor
    work.with_keys, work.with_values, work.with_headers = keys, values, headers
    try:
        for at in range(count):
            records, record_count, base_offset, base_timestamp, fixed_timestamp = payloads[at]
            PyObject_GetBuffer(records, &sources[at].buffer, PyBUF_SIMPLE)
            sources[at].held = True
            sources[at].record_count = record_count
            sources[at].base_offset = base_offset
            sources[at].base_timestamp = base_timestamp
            sources[at].fixed = fixed_timestamp is not None
            sources[at].fixed_timestamp = 0 if fixed_timestamp is None else fixed_timestamp
        with nogil:
            for at in range(count):
                fault = measure(&sources[at], &work)
                if fault:
                    break
        if fault:
            raise corrupt(fault, work.index)
        return filled(sources, count, &work)
    finally:
        for at in range(count):
            if sources[at].held:
                PyBuffer_Release(&sources[at].buffer)
        PyMem_Free(sources)


cdef int measure(const Source* source, Work* work) noexcept nogil:
    cdef const uint8_t* data = <const uint8_t*> source.buffer.buf
    cdef Py_ssize_t data_end = source.buffer.len
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t at
    cdef int64_t index = 0
    cdef int64_t offset
    cdef uint64_t code = 0
    cdef Fields fields
    cdef int fault
    while index < source.record_count:
        fault = read_fields(data, data_end, &position, &fields)
        if fault:
            work.index = index
            return fault
        index += 1
        offset = sum_of(source.base_offset, fields.offset_delta)
        if offset < work.start_offset or offset >= work.end_offset:
            continue
        work.rows += 1
        work.keys.size += max(fields.key_bytes, 0)
        work.values.size += max(fields.value_bytes, 0)
        if work.with_headers and data[fields.headers_start]:
            at = fields.headers_start
            read_code32(data, fields.record_end, &at, &code)
            work.header_keys.rows += <Py_ssize_t> (code >> 1)
            # Keys and values together at most; the columns are cut to size in the end.
            work.header_keys.size += fields.record_end - at
    if position != data_end:
        work.index = data_end - position
        return BYTES_LEFT
    return 0


cdef object filled(Source* sources, Py_ssize_t count, Work* work):
    cdef Py_ssize_t rows = work.rows
    cdef Py_ssize_t at
    cdef int fault = 0
    cdef bytes bounds = None
    cdef bytes validity = None
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, rows * sizeof(int64_t))
    cdef bytes timestamps = PyBytes_FromStringAndSize(NULL, rows * sizeof(int64_t))
    work.offsets = <int64_t*> PyBytes_AS_STRING(offsets)
    work.timestamps = <int64_t*> PyBytes_AS_STRING(timestamps)
    keys = values = header_keys = header_values = None
    if work.with_keys:
        keys = new_column(&work.keys, rows)
    if work.with_values:
        values = new_column(&work.values, rows)
    if work.with_headers:
        work.header_values.size = work.header_keys.size
        header_keys = new_column(&work.header_keys, work.header_keys.rows)
        header_values = new_column(&work.header_values, work.header_keys.rows)
        bounds = PyBytes_FromStringAndSize(NULL, (rows + 1) * sizeof(int32_t))
        validity = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
        work.bounds = <int32_t*> PyBytes_AS_STRING(bounds)
        work.bounds[0] = 0
        work.bounds_validity = <uint8_t*> PyBytes_AS_STRING(validity)
        memset(work.bounds_validity, 0, len(validity))
    with nogil:
        for at in range(count):
            fault = fill(&sources[at], work)
            if fault:
                break
    assert not fault and work.row == rows, "a payload changed while it was read"
    return GatheredColumns(
        rows,
        offsets,
        timestamps,
        column_of(keys, &work.keys),
        column_of(values, &work.values),
        HeaderColumns(
            bounds,
            validity,
            column_of(header_keys, &work.header_keys),
            column_of(header_values, &work.header_values),
        ) if work.with_headers else None,
    )


cdef tuple new_column(Column* column, Py_ssize_t rows):
    """The memory of a column: data, ends, validity."""
    if column.size > COLUMN_BYTES_MAX or rows >= COLUMN_BYTES_MAX:
        raise OverflowError("more than a column of 32-bit offsets can hold")
    cdef bytes data = PyBytes_FromStringAndSize(NULL, column.size)
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (rows + 1) * sizeof(int32_t))
    cdef bytes validity = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    column.data = <uint8_t*> PyBytes_AS_STRING(data)
    column.ends = <int32_t*> PyBytes_AS_STRING(ends)
    column.ends[0] = 0
    column.validity = <uint8_t*> PyBytes_AS_STRING(validity)
    memset(column.validity, 0, len(validity))
    column.rows = rows
    return data, ends, validity


cdef object column_of(tuple parts, Column* column):
    if parts is None:
        return None
    data, ends, validity = parts
    if column.data_end < column.size:
        data = data[:column.data_end]
    return BytesColumn(data, ends, sizeof(int32_t), validity if column.nulls else None)


cdef int fill(const Source* source, Work* work) noexcept nogil:
    cdef const uint8_t* data = <const uint8_t*> source.buffer.buf
    cdef Py_ssize_t data_end = source.buffer.len
    cdef Py_ssize_t position = 0
    cdef int64_t index
    cdef int64_t offset
    cdef int fault
    cdef Fields fields
    for index in range(source.record_count):
        fault = read_fields(data, data_end, &position, &fields)
        if fault:
            return fault
        offset = sum_of(source.base_offset, fields.offset_delta)
        if offset < work.start_offset or offset >= work.end_offset:
            continue
        if work.row >= work.rows:
            return COLUMN_FULL
        work.offsets[work.row] = offset
        work.timestamps[work.row] = multiplied(
            source.fixed_timestamp if source.fixed
            else sum_of(source.base_timestamp, fields.timestamp_delta),
            work,
        )
        if work.with_keys and put(&work.keys, data + fields.key_start, fields.key_bytes):
            return COLUMN_FULL
        if work.with_values and put(&work.values, data + fields.value_start, fields.value_bytes):
            return COLUMN_FULL
        if work.with_headers and put_headers(work, data, &fields):
            return COLUMN_FULL
        work.row += 1
    return 0


cdef inline int64_t multiplied(int64_t timestamp, const Work* work) noexcept nogil:
    """In the unit asked for; what is beyond it ends at its end."""
    if work.timestamp_factor == 1:
        return timestamp
    if timestamp > work.timestamp_bound:
        timestamp = work.timestamp_bound
    elif timestamp < -work.timestamp_bound:
        timestamp = -work.timestamp_bound
    return timestamp * work.timestamp_factor


cdef int put_headers(Work* work, const uint8_t* data, const Fields* fields) noexcept nogil:
    cdef Py_ssize_t position = fields.headers_start
    cdef Py_ssize_t end = fields.record_end
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t size = 0
    cdef uint64_t code = 0
    cdef int64_t count
    if read_code32(data, end, &position, &code):
        return COLUMN_FULL
    count = <int64_t> (code >> 1)
    if count:
        work.bounds_validity[work.row >> 3] |= <uint8_t> (1 << (work.row & 7))
    while count:
        count -= 1
        if read_nullable(data, end, &position, end, &start, &size):
            return COLUMN_FULL
        if put(&work.header_keys, data + start, size):
            return COLUMN_FULL
        if read_nullable(data, end, &position, end, &start, &size):
            return COLUMN_FULL
        if put(&work.header_values, data + start, size):
            return COLUMN_FULL
    work.bounds[work.row + 1] = <int32_t> work.header_keys.row
    return 0


cdef inline int put(Column* column, const uint8_t* content, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t row = column.row
    if row >= column.rows or column.data_end + size > column.size:
        return COLUMN_FULL
    if size >= 0:
        memcpy(column.data + column.data_end, content, size)
        column.data_end += size
        column.validity[row >> 3] |= <uint8_t> (1 << (row & 7))
    else:
        column.nulls += 1
    column.ends[row + 1] = <int32_t> column.data_end
    column.row = row + 1
    return 0

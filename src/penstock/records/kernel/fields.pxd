# Where the parts of a record stand, for every walk that looks at all of them.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from penstock.records.kernel.varint cimport *


cdef inline int skip_headers(
    const uint8_t* data,
    Py_ssize_t data_end,
    Py_ssize_t* position,
    Py_ssize_t record_end,
    bint within_record,
) noexcept nogil:
    """Goes past the headers; `within_record` looks at the end of each, before what follows it."""
    cdef uint64_t code = 0
    cdef int64_t count
    cdef int fault = read_code32(data, data_end, position, &code)
    if fault:
        return fault
    count = <int64_t> (code >> 1)
    # A header takes two bytes at least, so this bounds the loop that follows.
    if code & 1 or count * 2 > record_end - position[0]:
        return TOO_MANY_HEADERS
    while count:
        count -= 1
        fault = read_code32(data, data_end, position, &code)
        if fault:
            return fault
        if code & 1:
            return HEADER_WITHOUT_KEY
        position[0] += <Py_ssize_t> (code >> 1)
        if within_record and position[0] > record_end:
            return FIELD_BEYOND_RECORD
        fault = read_code32(data, data_end, position, &code)
        if fault:
            return fault
        if not code & 1:
            position[0] += <Py_ssize_t> (code >> 1)
            if within_record and position[0] > record_end:
                return FIELD_BEYOND_RECORD
    return 0


cdef struct Fields:
    int64_t timestamp_delta
    int64_t offset_delta
    Py_ssize_t key_start
    Py_ssize_t key_bytes  # -1: null
    Py_ssize_t value_start
    Py_ssize_t value_bytes  # -1: null
    Py_ssize_t headers_start
    Py_ssize_t record_end


cdef inline int read_fields(
    const uint8_t* data, Py_ssize_t data_end, Py_ssize_t* position, Fields* fields
) noexcept nogil:
    """Where the parts of the record at `position` stand, all of them within the record."""
    cdef uint64_t code = 0
    cdef Py_ssize_t at = position[0]
    cdef int fault = read_code32(data, data_end, &at, &code)
    if fault:
        return fault
    fields.record_end = at + <Py_ssize_t> (code >> 1)
    if code & 1 or fields.record_end > data_end:
        return RECORD_BEYOND_BATCH
    at += 1  # attributes
    fault = read_code64(data, data_end, &at, &code)
    if fault:
        return fault
    fields.timestamp_delta = number_of(code)
    fault = read_code32(data, data_end, &at, &code)
    if fault:
        return fault
    fields.offset_delta = number_of(code)
    fault = read_nullable(data, data_end, &at, fields.record_end, &fields.key_start,
                          &fields.key_bytes)
    if fault:
        return fault
    fault = read_nullable(data, data_end, &at, fields.record_end, &fields.value_start,
                          &fields.value_bytes)
    if fault:
        return fault
    fields.headers_start = at
    if at < data_end and data[at] == 0:
        at += 1
    else:
        fault = skip_headers(data, data_end, &at, fields.record_end, True)
        if fault:
            return fault
    if at != fields.record_end:
        return RECORD_OF_OTHER_SIZE
    position[0] = at
    return 0

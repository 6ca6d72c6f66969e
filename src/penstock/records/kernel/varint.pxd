# Numbers and lengths in records, read and written without Python objects.
#
# A read never looks at or past `end`, whatever the bytes say; it answers 0 or a fault, which stands
# for a sentence of records/fault.py. Positions are signed and may lie past the end, after a length
# that lies: then the next read is a fault.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    ENDS_WITHIN_RECORD = 1
    NUMBER_TOO_LARGE = 2
    NUMBER_WITHOUT_END = 3
    RECORD_BEYOND_BATCH = 4
    RECORD_OF_OTHER_SIZE = 5
    FIELD_BEYOND_RECORD = 6
    TOO_MANY_HEADERS = 7
    HEADER_WITHOUT_KEY = 8
    BYTES_LEFT = 9

cdef enum:
    LONG_BYTES = 65536  # work on more than this lets other threads run meanwhile

cdef enum:
    VARINT_BYTES_MAX = 10


cdef inline int read_code32(
    const uint8_t* data, Py_ssize_t end, Py_ssize_t* position, uint64_t* code
) noexcept nogil:
    """An int32, still zigzag-coded."""
    cdef Py_ssize_t at = position[0]
    if at >= end:
        return ENDS_WITHIN_RECORD
    if data[at] < 0x80:
        code[0] = data[at]
        position[0] = at + 1
        return 0
    return read_long_code(data, end, position, code, 0xFFFFFFFF)


cdef inline int read_code64(
    const uint8_t* data, Py_ssize_t end, Py_ssize_t* position, uint64_t* code
) noexcept nogil:
    """An int64, still zigzag-coded."""
    cdef Py_ssize_t at = position[0]
    if at >= end:
        return ENDS_WITHIN_RECORD
    if data[at] < 0x80:
        code[0] = data[at]
        position[0] = at + 1
        return 0
    return read_long_code(data, end, position, code, 0xFFFFFFFFFFFFFFFF)


cdef inline int read_long_code(
    const uint8_t* data, Py_ssize_t end, Py_ssize_t* position, uint64_t* code, uint64_t code_max
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint64_t found = 0
    cdef uint64_t bits
    cdef uint8_t byte
    cdef int shift = 0
    while True:
        if at >= end:
            return ENDS_WITHIN_RECORD
        byte = data[at]
        at += 1
        bits = byte & 0x7F
        if shift == 63 and bits > 1:
            return NUMBER_TOO_LARGE
        found |= bits << shift
        if found > code_max:
            return NUMBER_TOO_LARGE
        if byte < 0x80:
            code[0] = found
            position[0] = at
            return 0
        shift += 7
        if shift > 63:
            return NUMBER_WITHOUT_END


cdef inline int read_nullable(
    const uint8_t* data,
    Py_ssize_t data_end,
    Py_ssize_t* position,
    Py_ssize_t record_end,
    Py_ssize_t* start,
    Py_ssize_t* size,
) noexcept nogil:
    """A length and so many bytes of the record; every negative length is a null, given as -1."""
    cdef uint64_t code = 0
    cdef int fault = read_code32(data, data_end, position, &code)
    if fault:
        return fault
    start[0] = position[0]
    size[0] = -1
    if code & 1:
        return 0
    size[0] = <Py_ssize_t> (code >> 1)
    position[0] += size[0]
    return FIELD_BEYOND_RECORD if position[0] > record_end else 0


cdef inline int64_t number_of(uint64_t code) noexcept nogil:
    return <int64_t> ((code >> 1) ^ (~(code & 1) + 1))


cdef inline int64_t sum_of(int64_t one, int64_t other) noexcept nogil:
    """Wraps around instead of overflowing."""
    return <int64_t> (<uint64_t> one + <uint64_t> other)


cdef inline int64_t difference_of(int64_t one, int64_t other) noexcept nogil:
    return <int64_t> (<uint64_t> one - <uint64_t> other)


cdef inline uint64_t code_of(int64_t number) noexcept nogil:
    return (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)


cdef inline Py_ssize_t varint_bytes(int64_t number) noexcept nogil:
    cdef uint64_t code = code_of(number)
    cdef Py_ssize_t count = 1
    while code > 0x7F:
        code >>= 7
        count += 1
    return count


cdef inline uint8_t* write_varint(uint8_t* out, int64_t number) noexcept nogil:
    """Writes up to VARINT_BYTES_MAX bytes and gives the place after them."""
    cdef uint64_t code = code_of(number)
    while code > 0x7F:
        out[0] = <uint8_t> (code & 0x7F | 0x80)
        code >>= 7
        out += 1
    out[0] = <uint8_t> code
    return out + 1


cdef inline uint32_t word_at(const uint8_t* data) noexcept nogil:
    """Four bytes, the lowest first."""
    return (
        <uint32_t> data[0]
        | <uint32_t> data[1] << 8
        | <uint32_t> data[2] << 16
        | <uint32_t> data[3] << 24
    )

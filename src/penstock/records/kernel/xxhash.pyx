# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""XXH32 with seed 0, compiled; `twin/xxhash.py` says what it promises."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    STRIPE_BYTES = 16

cdef uint32_t PRIME1 = 2654435761U
cdef uint32_t PRIME2 = 2246822519U
cdef uint32_t PRIME3 = 3266489917U
cdef uint32_t PRIME4 = 668265263U
cdef uint32_t PRIME5 = 374761393U


cdef inline uint32_t word_at(const uint8_t* at) noexcept nogil:
    # Written so that any byte order reads it alike; a compiler makes one load of it.
    return (
        <uint32_t> at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24
    )


cdef inline uint32_t rotate(uint32_t value, int by) noexcept nogil:
    return value << by | value >> (32 - by)


cdef inline uint32_t mix(uint32_t lane, const uint8_t* at) noexcept nogil:
    return rotate(lane + word_at(at) * PRIME2, 13) * PRIME1


cdef uint32_t digest_of(const uint8_t* at, size_t count) noexcept nogil:
    cdef const uint8_t* end = at + count
    cdef uint32_t digest, lane1, lane2, lane3, lane4
    if count >= STRIPE_BYTES:
        lane1 = PRIME1 + PRIME2
        lane2 = PRIME2
        lane3 = 0
        lane4 = 0 - PRIME1
        while end - at >= STRIPE_BYTES:
            lane1 = mix(lane1, at)
            lane2 = mix(lane2, at + 4)
            lane3 = mix(lane3, at + 8)
            lane4 = mix(lane4, at + 12)
            at += STRIPE_BYTES
        digest = rotate(lane1, 1) + rotate(lane2, 7) + rotate(lane3, 12) + rotate(lane4, 18)
    else:
        digest = PRIME5
    digest += <uint32_t> count
    while end - at >= 4:
        digest = rotate(digest + word_at(at) * PRIME3, 17) * PRIME4
        at += 4
    while at < end:
        digest = rotate(digest + at[0] * PRIME5, 11) * PRIME1
        at += 1
    digest = (digest ^ digest >> 15) * PRIME2
    digest = (digest ^ digest >> 13) * PRIME3
    return digest ^ digest >> 16


def xxh32(data):
    cdef Py_buffer buffer
    cdef uint32_t digest
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        digest = digest_of(<const uint8_t*> buffer.buf, <size_t> buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return digest

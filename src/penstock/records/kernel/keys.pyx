# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The latest offset of each key, compiled; `twin/keys.py` says what it promises.

A table with open addressing, never more than `load_factor` full, so that every search ends:

    slot: hash 16 bytes | offset int64 with its sign bit turned; 0 where the slot is free
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from penstock.records.kernel.varint cimport *

from penstock.records.fault import corrupt

cdef enum:
    FATE_SUPERSEDED = 0
    FATE_LATEST = 1
    FATE_TOMBSTONE = 2

SUPERSEDED = FATE_SUPERSEDED
LATEST = FATE_LATEST
TOMBSTONE = FATE_TOMBSTONE


cdef struct Slot:
    uint64_t hash[2]
    uint64_t mark


cdef class KeyOffsets:
    cdef Slot* slots
    cdef uint64_t slot_count
    cdef bint busy
    cdef readonly int64_t entries_max
    cdef readonly int64_t count
    cdef readonly int64_t end_offset

    def __cinit__(self, *, int64_t memory_bytes, double load_factor=0.9):
        assert 0 < load_factor < 1, load_factor
        self.slot_count = memory_bytes // sizeof(Slot) if memory_bytes > 0 else 0
        self.entries_max = <int64_t> (self.slot_count * load_factor)
        assert self.entries_max > 0, memory_bytes
        self.slots = <Slot*> calloc(self.slot_count, sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError(f"{memory_bytes} bytes for the offsets of keys")

    def __dealloc__(self):
        free(self.slots)

    def note(self, payload, int64_t record_count, int64_t base_offset):
        cdef Task task
        cdef Py_buffer buffer
        self.begin()
        try:
            PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
            try:
                set_task(&task, &buffer, record_count, base_offset, NULL)
                if buffer.len > LONG_BYTES:
                    with nogil:
                        self.note_all(&task)
                else:
                    self.note_all(&task)
            finally:
                PyBuffer_Release(&buffer)
        finally:
            self.busy = False
        if task.fault:
            raise corrupt(task.fault, task.index)
        return task.index

    def fates(self, payload, int64_t record_count, int64_t base_offset):
        cdef Task task
        cdef Py_buffer buffer
        cdef bytes fates
        self.begin()
        try:
            PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
            try:
                # A record takes a byte at least: a count beyond that ends in a fault before it
                # is reached.
                fates = PyBytes_FromStringAndSize(NULL, max(0, min(record_count, buffer.len)))
                set_task(&task, &buffer, record_count, base_offset,
                         <uint8_t*> PyBytes_AS_STRING(fates))
                if buffer.len > LONG_BYTES:
                    with nogil:
                        self.tell_all(&task)
                else:
                    self.tell_all(&task)
            finally:
                PyBuffer_Release(&buffer)
        finally:
            self.busy = False
        if task.fault:
            raise corrupt(task.fault, task.index)
        return fates

    cdef int begin(self) except -1:
        assert not self.busy, "one thread at a time"
        self.busy = True
        return 0

    cdef void note_all(self, Task* task) noexcept nogil:
        cdef Keyed record
        cdef Slot* slot
        cdef uint64_t digest[2]
        while next_key(task, &record):
            if record.key_bytes >= 0:
                blake2s(record.key, record.key_bytes, digest)
                slot = self.find(digest)
                if slot.mark == 0:
                    if self.count == self.entries_max:
                        return
                    self.count += 1
                    slot.hash[0] = digest[0]
                    slot.hash[1] = digest[1]
                slot.mark = mark_of(record.offset)
            self.end_offset = sum_of(record.offset, 1)
            task.index += 1

    cdef void tell_all(self, Task* task) noexcept nogil:
        cdef Keyed record
        cdef Slot* slot
        cdef uint64_t digest[2]
        cdef uint8_t fate
        while next_key(task, &record):
            if record.offset >= self.end_offset:
                fate = FATE_LATEST
            elif record.key_bytes < 0:
                fate = FATE_SUPERSEDED
            else:
                blake2s(record.key, record.key_bytes, digest)
                slot = self.find(digest)
                if mark_of(record.offset) < max(slot.mark, mark_of(-1)):
                    fate = FATE_SUPERSEDED
                else:
                    fate = FATE_TOMBSTONE if record.value_is_null else FATE_LATEST
            task.fates[task.index] = fate
            task.index += 1

    cdef Slot* find(self, const uint64_t* digest) noexcept nogil:
        """The slot of this hash, or the free one where it belongs."""
        cdef uint64_t at = digest[0] % self.slot_count
        while self.slots[at].mark and (
            self.slots[at].hash[0] != digest[0] or self.slots[at].hash[1] != digest[1]
        ):
            at += 1
            if at == self.slot_count:
                at = 0
        return &self.slots[at]


def digest(bytes key not None):
    cdef uint64_t found[2]
    blake2s(<const uint8_t*> PyBytes_AS_STRING(key), len(key), found)
    return PyBytes_FromStringAndSize(<char*> found, sizeof(found))


cdef inline uint64_t mark_of(int64_t offset) noexcept nogil:
    return <uint64_t> offset ^ (<uint64_t> 1 << 63)


cdef struct Task:
    const uint8_t* data
    Py_ssize_t data_end
    Py_ssize_t position
    int64_t record_count
    int64_t base_offset
    uint8_t* fates
    int64_t index  # of the next record; in the end how many were gone through
    int fault


cdef void set_task(
    Task* task, Py_buffer* buffer, int64_t record_count, int64_t base_offset, uint8_t* fates
) noexcept:
    task.data = <const uint8_t*> buffer.buf
    task.data_end = buffer.len
    task.position = 0
    task.record_count = max(record_count, 0)
    task.base_offset = base_offset
    task.fates = fates
    task.index = 0
    task.fault = 0


cdef struct Keyed:
    int64_t offset
    const uint8_t* key
    Py_ssize_t key_bytes  # -1: null
    bint value_is_null


cdef bint next_key(Task* task, Keyed* record) noexcept nogil:
    """The record at the task's position; false at the end, or at a fault."""
    if task.index >= task.record_count:
        if task.position != task.data_end:
            task.fault = BYTES_LEFT
            task.index = task.data_end - task.position
        return False
    task.fault = read_key(task, record)
    return task.fault == 0


cdef int read_key(Task* task, Keyed* record) noexcept nogil:
    cdef Py_ssize_t at = task.position
    cdef Py_ssize_t record_end
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t size = 0
    cdef uint64_t code = 0
    cdef int fault = read_code32(task.data, task.data_end, &at, &code)
    if fault:
        return fault
    record_end = at + <Py_ssize_t> (code >> 1)
    if code & 1 or record_end > task.data_end:
        return RECORD_BEYOND_BATCH
    at += 1  # attributes
    fault = read_code64(task.data, task.data_end, &at, &code)
    if fault:
        return fault
    fault = read_code32(task.data, task.data_end, &at, &code)
    if fault:
        return fault
    record.offset = sum_of(task.base_offset, number_of(code))
    fault = read_nullable(task.data, task.data_end, &at, record_end, &start, &size)
    if fault:
        return fault
    record.key = task.data + start
    record.key_bytes = size
    fault = read_nullable(task.data, task.data_end, &at, record_end, &start, &size)
    if fault:
        return fault
    record.value_is_null = size < 0
    if at > record_end:
        return RECORD_OF_OTHER_SIZE
    task.position = record_end
    return 0


# BLAKE2s of RFC 7693, without a key, 16 bytes long.

cdef uint32_t* INITIAL = [
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
]
cdef uint8_t[10][16] ORDER
ORDER[0][:] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
ORDER[1][:] = [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3]
ORDER[2][:] = [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4]
ORDER[3][:] = [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8]
ORDER[4][:] = [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13]
ORDER[5][:] = [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9]
ORDER[6][:] = [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11]
ORDER[7][:] = [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10]
ORDER[8][:] = [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5]
ORDER[9][:] = [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0]

cdef enum:
    BLOCK_BYTES = 64


cdef void blake2s(const uint8_t* data, Py_ssize_t size, uint64_t* digest) noexcept nogil:
    cdef uint32_t state[8]
    cdef uint8_t last[BLOCK_BYTES]
    cdef uint64_t done = 0
    memcpy(state, INITIAL, sizeof(state))
    state[0] ^= 0x01010000 ^ 16  # no key, one lane, the length of the digest
    while size > BLOCK_BYTES:
        done += BLOCK_BYTES
        mix_block(state, data, done, False)
        data += BLOCK_BYTES
        size -= BLOCK_BYTES
    memset(last, 0, BLOCK_BYTES)
    memcpy(last, data, size)
    mix_block(state, last, done + <uint64_t> size, True)
    memcpy(digest, state, 16)


cdef void mix_block(
    uint32_t* state, const uint8_t* block, uint64_t done, bint is_last
) noexcept nogil:
    cdef uint32_t words[16]
    cdef uint32_t v[16]
    cdef int at
    cdef const uint8_t* order
    for at in range(16):
        words[at] = word_at(block + 4 * at)
    memcpy(v, state, 32)
    memcpy(v + 8, INITIAL, 32)
    v[12] ^= <uint32_t> done
    v[13] ^= <uint32_t> (done >> 32)
    if is_last:
        v[14] = ~v[14]
    for at in range(10):
        order = ORDER[at]
        mix(v, 0, 4, 8, 12, words[order[0]], words[order[1]])
        mix(v, 1, 5, 9, 13, words[order[2]], words[order[3]])
        mix(v, 2, 6, 10, 14, words[order[4]], words[order[5]])
        mix(v, 3, 7, 11, 15, words[order[6]], words[order[7]])
        mix(v, 0, 5, 10, 15, words[order[8]], words[order[9]])
        mix(v, 1, 6, 11, 12, words[order[10]], words[order[11]])
        mix(v, 2, 7, 8, 13, words[order[12]], words[order[13]])
        mix(v, 3, 4, 9, 14, words[order[14]], words[order[15]])
    for at in range(8):
        state[at] ^= v[at] ^ v[at + 8]


cdef inline void mix(
    uint32_t* v, int a, int b, int c, int d, uint32_t one, uint32_t other
) noexcept nogil:
    v[a] += v[b] + one
    v[d] = turn(v[d] ^ v[a], 16)
    v[c] += v[d]
    v[b] = turn(v[b] ^ v[c], 12)
    v[a] += v[b] + other
    v[d] = turn(v[d] ^ v[a], 8)
    v[c] += v[d]
    v[b] = turn(v[b] ^ v[c], 7)


cdef inline uint32_t turn(uint32_t word, int bits) noexcept nogil:
    return word >> bits | word << (32 - bits)

"""The latest offset of each key, as compaction asks for it, in plain Python.

A hash of 128 bits stands for a key, as in Apache Kafka, so that memory does not depend on how long
keys are. It is BLAKE2s, for which nobody can make two keys collide: of such a pair compaction would
drop the earlier one. The dictionary here takes several times the memory that the kernel's table
does; the bound on keys is the same.
"""

from collections.abc import Iterator
from hashlib import blake2s

from penstock.records.fault import Fault, corrupt
from penstock.records.layout import Buffer
from penstock.records.twin.walk import INT32_CODES, INT64_CODES, nullable_bytes, varint, wrap_int64

SLOT_BYTES = 24  # of the kernel: a hash and an offset
HASH_BYTES = 16
SUPERSEDED = 0
LATEST = 1
TOMBSTONE = 2


class KeyOffsets:
    """Which record is the last one of its key, within a bound of memory.

    Records are noted in the order of their offsets until there are none, or until it is full; then
    `fates` tells of each record whether a later one of the same key was noted.
    """

    def __init__(self, *, memory_bytes: int, load_factor: float = 0.9) -> None:
        assert 0 < load_factor < 1, load_factor
        self.entries_max = int(memory_bytes // SLOT_BYTES * load_factor)
        assert self.entries_max > 0, memory_bytes
        self.end_offset = 0  # after the last record noted
        self._offsets: dict[bytes, int] = {}

    @property
    def count(self) -> int:
        """How many keys it holds."""
        return len(self._offsets)

    def note(self, payload: Buffer, record_count: int, base_offset: int) -> int:
        """Notes the records of a batch and says how many; it is full when those are not all."""
        for index, (offset, key, _) in enumerate(_keys(payload, record_count, base_offset)):
            if key is not None:
                hashed = digest(key)
                if hashed not in self._offsets and len(self._offsets) == self.entries_max:
                    return index
                self._offsets[hashed] = offset
            self.end_offset = wrap_int64(offset + 1)
        return record_count

    def fates(self, payload: Buffer, record_count: int, base_offset: int) -> bytes:
        """A byte for each record: SUPERSEDED, also when it has no key; LATEST; or TOMBSTONE, which
        is the latest and has no value. At `end_offset` and after it all are LATEST.
        """
        fates = bytearray()
        for offset, key, is_null in _keys(payload, record_count, base_offset):
            if offset >= self.end_offset:
                fates.append(LATEST)
            elif key is None or offset < self._offsets.get(digest(key), -1):
                fates.append(SUPERSEDED)
            else:
                fates.append(TOMBSTONE if is_null else LATEST)
        return bytes(fates)


def digest(key: bytes) -> bytes:
    return blake2s(key, digest_size=HASH_BYTES).digest()


def _keys(
    payload: Buffer, record_count: int, base_offset: int
) -> Iterator[tuple[int, bytes | None, bool]]:
    """Offset and key of each record, and whether its value is null; its headers are passed over."""
    data = bytes(payload)
    data_end = len(data)
    position = 0
    for index in range(record_count):
        try:
            code, position = varint(data, position, INT32_CODES)
            record_end = position + (code >> 1)
            if code & 1 or record_end > data_end:
                raise corrupt(Fault.RECORD_BEYOND_BATCH, index)
            _, position = varint(data, position + 1, INT64_CODES)
            code, position = varint(data, position, INT32_CODES)
            offset = wrap_int64(base_offset + ((code >> 1) ^ -(code & 1)))
            key, position = nullable_bytes(data, position, record_end)
            value, position = nullable_bytes(data, position, record_end)
        except IndexError as error:
            raise corrupt(Fault.ENDS_WITHIN_RECORD) from error
        if position > record_end:
            raise corrupt(Fault.RECORD_OF_OTHER_SIZE, index)
        position = record_end
        yield offset, key, value is None
    if position != data_end:
        raise corrupt(Fault.BYTES_LEFT, data_end - position)

"""The sparse index from timestamp to offset of one segment.

    entry, 12 bytes, big-endian:
     0  timestamp         int64    the largest in the segment so far
     8  relative offset   int32    the last offset of the batch that has it, less the base offset

Invariants:
 1. Timestamps and offsets increase strictly.
 2. An entry (t, o) means that no batch up to the one that ends at o has a timestamp above t.
 3. The last entry of a segment that is no longer written to holds the largest timestamp of all.

The bytes are kept as they are on disk and searched in place: nothing is built at load.
"""

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from penstock.log.errors import CorruptIndex
from penstock.log.layout import RELATIVE_OFFSET_MAX
from penstock.log.offset_index import without_reserve
from penstock.model.offset import Offset
from penstock.records.layout import NO_TIMESTAMP

ENTRY_BYTES: Final = 12
_ENTRY: Final = Struct(">qi")


class TimeIndex:
    __slots__ = ("_data", "base_offset")

    def __init__(self, base_offset: Offset, data: bytes = b"") -> None:
        assert len(data) % ENTRY_BYTES == 0, len(data)
        self.base_offset = base_offset
        self._data = bytearray(data)

    @classmethod
    def decode(cls, base_offset: Offset, data: bytes) -> "TimeIndex":
        """The index in a file; CorruptIndex when it is invalid."""
        used = without_reserve(data, ENTRY_BYTES)
        if not used and len(data) == ENTRY_BYTES:
            used = data  # one batch at the first offset, of the first millisecond of 1970
        if used:
            first_ms, first = _ENTRY.unpack_from(used)
            last_ms, last = _ENTRY.unpack_from(used, len(used) - ENTRY_BYTES)
            if first < 0 or last < first or last_ms < first_ms:
                raise CorruptIndex("timestamps or offsets do not increase")
        return cls(base_offset, used)

    def encode(self) -> bytes:
        return bytes(self._data)

    def __len__(self) -> int:
        return len(self._data) // ENTRY_BYTES

    @property
    def byte_count(self) -> int:
        return len(self._data)

    def last(self) -> tuple[int, Offset]:
        """The largest timestamp and the offset that has it; (-1, base offset) when empty."""
        return self._entry(len(self) - 1) if self._data else (NO_TIMESTAMP, self.base_offset)

    def offset_before(self, timestamp_ms: int) -> Offset:
        """Where to begin the search for the first record of `timestamp_ms` or later."""
        slot = bisect_right(range(len(self)), timestamp_ms, key=self._timestamp) - 1
        return self._entry(slot)[1] if slot >= 0 else self.base_offset

    def append(self, timestamp_ms: int, offset: Offset) -> None:
        """Adds an entry if the largest timestamp has increased since the last one."""
        last_timestamp_ms, last_offset = self.last()
        if timestamp_ms <= last_timestamp_ms:
            return
        assert not self._data or offset > last_offset, (last_offset, offset)
        relative = offset - self.base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX, (self.base_offset, offset)
        self._data += _ENTRY.pack(timestamp_ms, relative)

    def truncate(self, offset: Offset) -> None:
        """Removes every entry at `offset` or beyond."""
        slot = bisect_left(range(len(self)), offset, key=self._offset)
        del self._data[slot * ENTRY_BYTES :]

    def _timestamp(self, slot: int) -> int:
        return int.from_bytes(self._data[slot * ENTRY_BYTES : slot * ENTRY_BYTES + 8], signed=True)

    def _offset(self, slot: int) -> Offset:
        return self._entry(slot)[1]

    def _entry(self, slot: int) -> tuple[int, Offset]:
        timestamp_ms, relative = _ENTRY.unpack_from(self._data, slot * ENTRY_BYTES)
        return timestamp_ms, Offset(self.base_offset + relative)

"""The sparse index from offset to position of one segment.

    entry, 8 bytes, big-endian:
     0  relative offset   uint32   the LAST offset of a batch, less the segment's base offset
     4  position          uint32   where that batch begins in the .log file

Invariants:
 1. Offsets and positions increase strictly.
 2. Every entry names a whole batch of the .log file.
 3. The index is a hint: without an entry the search begins at position 0, which is slow but
    correct.

In memory an entry is one number, offset in the upper half, so that a search is one bisect over an
array in C. Apache Kafka preallocates 10 MiB of zeros for the index of its active segment and trims
it when it closes; a killed broker leaves the zeros, and `decode` removes them.
"""

import operator
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from penstock.log.errors import CorruptIndex
from penstock.log.layout import RELATIVE_OFFSET_MAX
from penstock.model.offset import Offset

ENTRY_BYTES: Final = 8
_POSITION_MASK: Final = 0xFFFF_FFFF
_NATIVE_IS_LITTLE: Final = array("H", b"\x01\x00")[0] == 1
assert array("I").itemsize == 4 and array("Q").itemsize == ENTRY_BYTES


class OffsetIndex:
    __slots__ = ("_entries", "base_offset")

    def __init__(self, base_offset: Offset, entries: "array[int] | None" = None) -> None:
        self.base_offset = base_offset
        self._entries = array("Q") if entries is None else entries

    @classmethod
    def decode(cls, base_offset: Offset, data: bytes, *, log_bytes: int) -> "OffsetIndex":
        """The index in a file; CorruptIndex if it does not fit a log of `log_bytes` bytes."""
        data = without_reserve(data, ENTRY_BYTES)
        entries, halves = array("Q", data), array("I", data)
        if _NATIVE_IS_LITTLE:
            entries.byteswap()
            halves.byteswap()
        for half in (halves[0::2], halves[1::2]):
            if not all(map(operator.lt, half, half[1:])):
                raise CorruptIndex("offsets or positions do not increase")
        if halves and halves[-1] >= log_bytes:
            raise CorruptIndex(f"an entry points beyond the {log_bytes} bytes of the log")
        return cls(base_offset, entries)

    def encode(self) -> bytes:
        entries = self._entries[:]
        if _NATIVE_IS_LITTLE:
            entries.byteswap()
        return entries.tobytes()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def byte_count(self) -> int:
        return len(self._entries) * ENTRY_BYTES

    def position_before(self, offset: Offset) -> int:
        """Where to begin the search for `offset`: no earlier batch holds it."""
        key = (offset - self.base_offset) << 32 | _POSITION_MASK
        if key < 0:
            return 0
        slot = bisect_right(self._entries, min(key, 2**64 - 1)) - 1
        return self._entries[slot] & _POSITION_MASK if slot >= 0 else 0

    def position_at(self, offset: Offset) -> int | None:
        """Where a batch begins that ends beyond `offset`, and may hold it; None: none is known.

        Of those that are known it is the first, and none of them lies between `position_before`
        and this one.
        """
        key = (offset - self.base_offset) << 32 | _POSITION_MASK
        slot = bisect_right(self._entries, min(max(key, 0), 2**64 - 1))
        return self._entries[slot] & _POSITION_MASK if slot < len(self._entries) else None

    def offset_beyond(self, position: int) -> Offset | None:
        """An offset that no batch reaches which begins before `position`; None: none is known."""
        slot = bisect_left(self._entries, position, key=_position)
        if slot == len(self._entries):
            return None
        return Offset(self.base_offset + (self._entries[slot] >> 32))

    def last_position_before(self, limit: int) -> int:
        """Where the last known batch begins that does so at `limit` or before."""
        slot = bisect_right(self._entries, limit, key=_position) - 1
        return self._entries[slot] & _POSITION_MASK if slot >= 0 else 0

    def last_position(self) -> int:
        return self._entries[-1] & _POSITION_MASK if self._entries else 0

    def append(self, last_offset: Offset, position: int) -> None:
        relative = last_offset - self.base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX, (self.base_offset, last_offset)
        entry = relative << 32 | position
        assert not self._entries or not _out_of_order(self._entries[-1], entry), entry
        self._entries.append(entry)

    def truncate(self, offset: Offset) -> None:
        """Removes every batch that reaches `offset` or beyond."""
        key = max(0, offset - self.base_offset) << 32
        del self._entries[bisect_left(self._entries, min(key, 2**64 - 1)) :]


def without_reserve(data: bytes, entry_bytes: int) -> bytes:
    """The entries of an index file, without zeros at its end: no entry is all zeros.

    CorruptIndex when the file ends within an entry.
    """
    if len(data) % entry_bytes:
        raise CorruptIndex(
            f"{len(data)} bytes are not a multiple of the entry size, {entry_bytes} bytes"
        )
    used = data.rstrip(b"\0")
    # The last entry may end in zero bytes of its own: give back what was cut.
    return used + bytes(-len(used) % entry_bytes)


def _position(entry: int) -> int:
    return entry & _POSITION_MASK


def _out_of_order(earlier: int, later: int) -> bool:
    return earlier >> 32 >= later >> 32 or earlier & _POSITION_MASK >= later & _POSITION_MASK

"""The indexes of sealed segments, cached up to a bound of bytes; the least recently used are
evicted.
"""

from collections import OrderedDict
from typing import Protocol

from penstock.log.offset_index import OffsetIndex
from penstock.log.time_index import TimeIndex
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import LOADED_INDEX_BYTES_MAX


@dataclass(slots=True, kw_only=True)
class Indexes:
    """The two indexes of one segment."""

    offset: OffsetIndex
    time: TimeIndex

    @property
    def byte_count(self) -> int:
        return self.offset.byte_count + self.time.byte_count


class Indexed(Protocol):
    def load_indexes(self) -> Indexes: ...


class LoadedIndexes:
    """Shared by all logs of a directory."""

    __slots__ = ("_by_segment", "byte_count", "byte_count_max")

    def __init__(self, byte_count_max: int = LOADED_INDEX_BYTES_MAX) -> None:
        self.byte_count = 0
        self.byte_count_max = byte_count_max
        self._by_segment: OrderedDict[Indexed, Indexes] = OrderedDict()

    def of(self, segment: Indexed) -> Indexes:
        """The segment's indexes, read from disk unless they are cached."""
        known = self._by_segment.get(segment)
        if known is not None:
            self._by_segment.move_to_end(segment)
            return known
        indexes = segment.load_indexes()
        self._by_segment[segment] = indexes
        self.byte_count += indexes.byte_count
        while self.byte_count > self.byte_count_max and len(self._by_segment) > 1:
            _, evicted = self._by_segment.popitem(last=False)
            self.byte_count -= evicted.byte_count
        return indexes

    def forget(self, segment: Indexed) -> None:
        indexes = self._by_segment.pop(segment, None)
        if indexes is not None:
            self.byte_count -= indexes.byte_count

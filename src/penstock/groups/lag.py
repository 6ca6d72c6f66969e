"""The lag of a group in one partition: in records, and in time.

In records it is the distance from the committed offset to the end; records that were deleted before
they were read are counted separately, as `missed`. In time it is the age of the first unread
record, so a group that has read everything has a lag of 0, however old the last record is, and the
lag of a stopped group grows by a second each second.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    records: int  # offsets from the first unread record to the end
    missed: int  # offsets that were deleted unread
    age_ms: int | None  # of the first unread record; None where that is not known

    def __post_init__(self) -> None:
        assert self.records >= 0
        assert self.missed >= 0
        assert self.age_ms is None or self.age_ms >= 0


def first_unread(committed: Offset, *, start_offset: Offset, end_offset: Offset) -> Offset | None:
    """The offset of the first unread record; None when everything has been read."""
    assert start_offset <= end_offset
    unread = max(committed, start_offset)
    return unread if unread < end_offset else None


def lag(
    committed: Offset,
    *,
    start_offset: Offset,
    end_offset: Offset,
    unread_since_ms: int | None,
    now_ms: int,
) -> Lag:
    """The lag; `unread_since_ms` is the timestamp of the first unread record, if there is one.

    A timestamp in the future, which producers may set, counts as now.
    """
    unread = first_unread(committed, start_offset=start_offset, end_offset=end_offset)
    missed = max(0, start_offset - committed)
    if unread is None:
        return Lag(records=0, missed=missed, age_ms=0)
    age_ms = None if unread_since_ms is None else max(0, now_ms - unread_since_ms)
    return Lag(records=end_offset - unread, missed=missed, age_ms=age_ms)

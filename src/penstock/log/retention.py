"""Which segments of a log are too many or too old: `retention.bytes` and `retention.ms`.

    start_offset           Expired.start_offset              high watermark
      |  surplus  |  too old  |  kept ...                          |
      [...........)[.........)[..........)[........................:....)

The rules are Apache Kafka's. Whole segments go, the oldest first, and the first one that must stay
keeps all behind it: that a segment is old is no reason to make a hole. A segment is as old as its
largest timestamp, or, without any, as the last write to its file; a timestamp in the future keeps
it until that time has come and `retention.ms` after it.

Invariants:
 1. Nothing at or above the high watermark goes.
 2. By size a segment goes only if what stays still has `retention.bytes`; so the active one stays,
    unless nothing at all is to be kept.
 3. By age the active segment goes too, unless it is empty: its owner begins a new one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings

DELETE = "delete"


class SegmentFacts(Protocol):
    """What is asked of a segment; its time only if its size does not decide."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def latest_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What is to go of a log: all segments that end at `start_offset` or before."""

    start_offset: Offset
    surplus_segments: int
    old_segments: int
    size_bytes: int


def expires(settings: TopicSettings) -> bool:
    """Whether time or size can take anything from such a log."""
    limited = settings.retention_ms >= 0 or settings.retention_bytes >= 0
    return limited and DELETE in settings.cleanup_policy


def find_expired(
    segments: Sequence[SegmentFacts],
    *,
    start_offset: Offset,
    end_offset: Offset,
    high_watermark: Offset,
    settings: TopicSettings,
    now_ms: int,
) -> Expired | None:
    """What of a log's segments, in order and the last one active, is to go now, if anything."""
    assert start_offset <= high_watermark <= end_offset, (start_offset, high_watermark, end_offset)
    if not expires(settings):
        return None
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    first = 0
    while first < len(segments) - 1 and ends[first] <= start_offset:
        first += 1  # a deletion that is not finished
    may_go_until = first
    while may_go_until < len(segments) and ends[may_go_until] <= high_watermark:  # invariant 1
        may_go_until += 1
    if may_go_until == len(segments) and segments[-1].size_bytes == 0:
        may_go_until -= 1  # invariant 3
    surplus_end = _surplus_end(segments, first, may_go_until, settings.retention_bytes)
    old_end = _old_end(segments, surplus_end, may_go_until, settings.retention_ms, now_ms)
    if old_end <= first:
        return None
    return Expired(
        start_offset=max(start_offset, ends[old_end - 1]),
        surplus_segments=surplus_end - first,
        old_segments=old_end - surplus_end,
        size_bytes=sum(segment.size_bytes for segment in segments[first:old_end]),
    )


def _surplus_end(
    segments: Sequence[SegmentFacts], first: int, may_go_until: int, retention_bytes: int
) -> int:
    """The place behind the last segment without which the log is still large enough."""
    if retention_bytes < 0:
        return first
    surplus_bytes = sum(segment.size_bytes for segment in segments[first:]) - retention_bytes
    slot = first
    while slot < may_go_until and segments[slot].size_bytes <= surplus_bytes:
        surplus_bytes -= segments[slot].size_bytes
        slot += 1
    return slot


def _old_end(
    segments: Sequence[SegmentFacts], first: int, may_go_until: int, retention_ms: int, now_ms: int
) -> int:
    """The place behind the last of those that are too old."""
    if retention_ms < 0:
        return first
    slot = first
    while slot < may_go_until and now_ms - segments[slot].latest_ms > retention_ms:
        slot += 1
    return slot

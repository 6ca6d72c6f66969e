"""Which segments of a log have expired, by `retention.bytes` and `retention.ms`.

    start_offset           Expired.start_offset              high watermark
      |  surplus  |  too old  |  kept ...                          |
      [...........)[.........)[..........)[........................:....)

The rules are Apache Kafka's. Whole segments are deleted, the oldest first, and the first one that
must stay keeps all later ones: there are no holes. The age of a segment is that of its largest
timestamp, or, without any, of the last write to its file; a timestamp in the future keeps it until
that time plus `retention.ms`.

Invariants:
 1. Nothing at or above the high watermark is deleted.
 2. By size, a segment is deleted only if the rest still has `retention.bytes`; so the active one
    stays, unless `retention.bytes` is 0.
 3. By age, the active segment is deleted too, unless it is empty: its owner begins a new one first.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings

DELETE = "delete"


class SegmentFacts(Protocol):
    """What a segment must provide; its time is read only if its size does not decide."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def latest_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What is to be deleted: all segments that end at `start_offset` or before."""

    start_offset: Offset
    surplus_segments: int
    old_segments: int
    size_bytes: int


def expires(settings: TopicSettings) -> bool:
    """Whether time or size can expire anything of such a log."""
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
    """Which of a log's segments, in order, the last one active, have expired now, if any."""
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

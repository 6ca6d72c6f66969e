"""When a new segment begins.

`must_roll` has the rules. An append checks `RollLimits` first, which were computed from the same
rules when the segment began: three comparisons are enough for nearly every batch.
"""

from collections.abc import Sequence

from penstock.log import offset_index, time_index
from penstock.log.layout import RELATIVE_OFFSET_MAX
from penstock.log.segment import Segment
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchHeader
from penstock.records.checksum import crc32c

NEVER = -2  # below every timestamp: always look closely


@dataclass(slots=True)
class RollLimits:
    """A batch within all of these certainly goes into the active segment."""

    size_bytes: int
    last_offset: int
    timestamp_ms: int


def roll_limits(active: Segment, settings: TopicSettings) -> RollLimits:
    indexes = active.indexes
    entries_left = min(
        _offset_entries_max(settings) - len(indexes.offset),
        _time_entries_max(settings) - len(indexes.time),
    )
    return RollLimits(
        # New index entries are more than the interval apart, whatever it was before: no index gets
        # full within this number of bytes.
        size_bytes=min(
            settings.segment_bytes,
            active.size_bytes + max(0, entries_left) * settings.index_interval_bytes,
        ),
        last_offset=active.base_offset + RELATIVE_OFFSET_MAX,
        timestamp_ms=_timestamp_limit_ms(active, settings),
    )


def must_roll(
    active: Segment, batches: Sequence[BatchHeader], *, settings: TopicSettings, now_ms: int
) -> bool:
    """Whether these batches need a new segment.

    By size, by age, by a full index, or because an offset would be too far from the base offset.
    Only the last reason ends a segment that is empty.
    """
    if batches[-1].last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    if active.size_bytes == 0:
        return False
    size_bytes = sum(batch.size_bytes for batch in batches)
    if active.size_bytes > settings.segment_bytes - size_bytes:
        return True
    if active.first_timestamp_ms < 0:
        # Without a time of its own its age is counted by the clock.
        aged = now_ms - active.created_ms > _segment_ms(settings) - _jitter_ms(active, settings)
    else:
        # By the records' own time, as Apache Kafka counts: a copy of old data rolls as it did.
        timestamp_ms = max(batch.max_timestamp for batch in batches)
        aged = timestamp_ms > _timestamp_limit_ms(active, settings)
    return aged or _indexes_full(active, settings)


def _timestamp_limit_ms(active: Segment, settings: TopicSettings) -> int:
    first_ms = active.first_timestamp_ms
    if first_ms < 0:
        return NEVER
    return first_ms + _segment_ms(settings) - _jitter_ms(active, settings)


def _segment_ms(settings: TopicSettings) -> int:
    """Compaction leaves the active segment alone: one that it must reach in time ends in time."""
    if "compact" in settings.cleanup_policy:
        return min(settings.segment_ms, settings.max_compaction_lag_ms)
    return settings.segment_ms


def _jitter_ms(active: Segment, settings: TopicSettings) -> int:
    """Shortens the age by what looks random and is the same at every start of a node."""
    jitter_ms_max = min(settings.segment_jitter_ms, _segment_ms(settings))
    return crc32c(active.file.path.encode()) % jitter_ms_max if jitter_ms_max else 0


def _indexes_full(active: Segment, settings: TopicSettings) -> bool:
    indexes = active.indexes
    full = len(indexes.offset) >= _offset_entries_max(settings)
    return full or len(indexes.time) >= _time_entries_max(settings)


def _offset_entries_max(settings: TopicSettings) -> int:
    """The last entry is kept for the last batch, written when the segment is sealed."""
    return settings.segment_index_bytes // offset_index.ENTRY_BYTES - 1


def _time_entries_max(settings: TopicSettings) -> int:
    """The last entry is kept for the largest timestamp, written when the segment is sealed."""
    return settings.segment_index_bytes // time_index.ENTRY_BYTES - 1

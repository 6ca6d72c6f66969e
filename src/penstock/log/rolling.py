"""When a new segment begins."""

from collections.abc import Sequence

from penstock.log import offset_index, time_index
from penstock.log.layout import RELATIVE_OFFSET_MAX
from penstock.log.segment import Segment
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.checksum import crc32c


def must_roll(
    active: Segment, batches: Sequence[BatchView], *, settings: TopicSettings, now_ms: int
) -> bool:
    """Whether these batches do not go into the active segment any more.

    By size, by age, by a full index, or because an offset would lie too far from the base offset.
    A segment that holds nothing is left for the last reason alone.
    """
    if batches[-1].last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    if active.size_bytes == 0:
        return False
    if len(batches) == 1:
        size_bytes, timestamp_ms = batches[0].size_bytes, batches[0].max_timestamp
    else:
        size_bytes = sum(batch.size_bytes for batch in batches)
        timestamp_ms = max(batch.max_timestamp for batch in batches)
    if active.size_bytes > settings.segment_bytes - size_bytes:
        return True
    age_ms = _age_ms(active, timestamp_ms=timestamp_ms, now_ms=now_ms)
    if age_ms > settings.segment_ms - _jitter_ms(active, settings):
        return True
    return _indexes_full(active, settings)


def _age_ms(active: Segment, *, timestamp_ms: int, now_ms: int) -> int:
    """By the records' own time, as Apache Kafka counts: a replay of old data rolls as it did."""
    first_ms = active.first_timestamp_ms
    return timestamp_ms - first_ms if first_ms >= 0 else now_ms - active.created_ms


def _jitter_ms(active: Segment, settings: TopicSettings) -> int:
    """Shortens the age by what looks random and is the same at every start of a node."""
    if settings.segment_jitter_ms == 0:
        return 0
    jitter_ms_max = min(settings.segment_jitter_ms, settings.segment_ms)
    return crc32c(active.file.path.encode()) % jitter_ms_max if jitter_ms_max else 0


def _indexes_full(active: Segment, settings: TopicSettings) -> bool:
    indexes = active.indexes
    offset_entries_max = settings.segment_index_bytes // offset_index.ENTRY_BYTES
    # The last entry of the time index is kept for the largest timestamp, written at the end.
    time_entries_max = settings.segment_index_bytes // time_index.ENTRY_BYTES - 1
    return len(indexes.offset) >= offset_entries_max or len(indexes.time) >= time_entries_max

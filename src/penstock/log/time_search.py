"""Finding offsets by time: through the time index to a batch, and through its records."""

from collections.abc import Sequence

from penstock.log.reading import TimedOffset
from penstock.log.segment import Segment
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
from penstock.records.iterate import records_of
from penstock.records.layout import NO_TIMESTAMP


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, *, start_offset: Offset
) -> TimedOffset | None:
    """The first record at or above `start_offset` of `timestamp_ms` or later."""
    for segment in segments:
        if segment.largest_timestamp[0] < timestamp_ms:
            continue
        indexes = segment.indexes
        from_offset = max(indexes.time.offset_before(timestamp_ms), start_offset)
        position = indexes.offset.position_before(from_offset)
        for _, batch in segment.batches(start=position):
            if batch.max_timestamp < timestamp_ms or batch.last_offset < start_offset:
                continue
            for record in records_of(batch):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return _timed(record.offset, record.timestamp_ms, batch)
    return None


def of_max_timestamp(segments: Sequence[Segment]) -> TimedOffset | None:
    """The first record that has the largest timestamp of all; None when no record has one."""
    newest = max(segments, key=lambda segment: segment.largest_timestamp[0])
    timestamp_ms, last_offset = newest.largest_timestamp
    if timestamp_ms == NO_TIMESTAMP:
        return None
    found = newest.find(last_offset)
    assert found is not None, (newest, last_offset)
    _, batch = next(newest.batches(start=found[0]))
    for record in records_of(batch):
        if record.timestamp_ms == timestamp_ms:
            return _timed(record.offset, timestamp_ms, batch)
    # Compaction may have taken the record and left the batch's header as it was.
    return _timed(last_offset, timestamp_ms, batch)


def _timed(offset: Offset, timestamp_ms: int, batch: BatchView) -> TimedOffset:
    epoch = batch.leader_epoch
    known = LeaderEpoch(epoch) if epoch >= 0 else None
    return TimedOffset(offset=offset, timestamp_ms=timestamp_ms, leader_epoch=known)

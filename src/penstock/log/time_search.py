"""Finding offsets by time: through the time index to a batch, and through its records."""

from collections.abc import Sequence

from penstock.log.errors import CorruptIndex
from penstock.log.reading import TimedOffset
from penstock.log.segment import Segment
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
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
        for at, batch in segment.batches(start=position):
            if batch.max_timestamp < timestamp_ms or batch.last_offset < start_offset:
                continue
            for record in segment.records(batch, at):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return _timed(record.offset, record.timestamp_ms, batch)
    return None


def of_max_timestamp(segments: Sequence[Segment]) -> TimedOffset | None:
    """The first record that has the largest timestamp of all; None when no record has one."""
    for _ in range(1 + len(segments)):
        newest = max(segments, key=lambda segment: segment.largest_timestamp[0])
        if newest.largest_timestamp[0] == NO_TIMESTAMP:
            return None
        found = _batch_of_largest(newest)
        if found is not None:
            return _first_of_largest(newest, *found)
        # The time index names a batch that is not there: the disk has changed it.
        newest.rebuild_indexes()
    raise CorruptIndex("rebuilt time indexes refer to batches that do not exist")


def _batch_of_largest(segment: Segment) -> tuple[int, BatchView] | None:
    timestamp_ms, last_offset = segment.largest_timestamp
    found = segment.find(last_offset)
    if found is None:
        return None
    position, batch = next(segment.batches(start=found[0]))
    return (position, batch) if batch.max_timestamp == timestamp_ms else None


def _first_of_largest(segment: Segment, position: int, batch: BatchView) -> TimedOffset:
    for record in segment.records(batch, position):
        if record.timestamp_ms == batch.max_timestamp:
            return _timed(record.offset, batch.max_timestamp, batch)
    # Compaction may have taken the record and left the batch's header as it was.
    return _timed(batch.last_offset, batch.max_timestamp, batch)


def _timed(offset: Offset, timestamp_ms: int, batch: BatchView) -> TimedOffset:
    epoch = batch.leader_epoch
    known = LeaderEpoch(epoch) if epoch >= 0 else None
    return TimedOffset(offset=offset, timestamp_ms=timestamp_ms, leader_epoch=known)

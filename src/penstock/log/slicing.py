"""Which bytes of which segment go into a fetch reply."""

from collections.abc import Sequence

from penstock.log.reading import LogSlice, ReadBounds
from penstock.log.segment import Segment
from penstock.log.segments import slot_of
from penstock.model.offset import Offset
from penstock.world.ports import FileRange


def read_slice(segments: Sequence[Segment], bounds: ReadBounds, *, end_offset: Offset) -> LogSlice:
    """A slice that begins with the batch that holds `from_offset`, or the first one after it."""
    offset, until_offset = bounds.from_offset, bounds.until_offset
    slot = len(segments) - 1
    if offset < segments[slot].base_offset:
        slot = slot_of(segments, offset)
    while offset < until_offset and slot < len(segments):
        segment = segments[slot]
        located = segment.locate(offset)
        if located is not None:
            is_last = slot + 1 == len(segments)
            segment_end = end_offset if is_last else segments[slot + 1].base_offset
            if until_offset >= segment_end:
                limit = segment.size_bytes
            else:
                limit = segment.position_of(until_offset)
            return _cut(segment, located, limit, bounds)
        slot += 1  # the offsets up to the next segment have been compacted away
    return LogSlice(span=None, segment_base_offset=segments[-1].base_offset, position=0)


def _cut(
    segment: Segment, located: tuple[int, int | None], limit: int, bounds: ReadBounds
) -> LogSlice:
    """Bytes from a batch's position up to `limit`, or as many as the reader takes.

    The first batch is whole or there is none: a reader that gets less than one batch would ask
    for the same again.
    """
    position, first_bytes = located
    byte_count = max(0, limit - position)
    if byte_count > bounds.size_bytes_max:
        if first_bytes is None:
            first_bytes = segment.batch_bytes_at(position)
        byte_count = bounds.size_bytes_max
        if first_bytes > byte_count:
            byte_count = first_bytes if bounds.oversized_first else 0
        elif bounds.whole_batches:
            byte_count = segment.batch_end_before(position + byte_count, start=position) - position
    span = None
    if byte_count > 0:
        span = FileRange(file=segment.file, position=position, byte_count=byte_count)
    assert position + byte_count <= max(limit, position), (bounds, limit)
    return LogSlice(span=span, segment_base_offset=segment.base_offset, position=position)

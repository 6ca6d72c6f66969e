"""Cutting a slice out of a segment: which bytes of it go into a reply."""

from penstock.log.reading import LogSlice, ReadBounds
from penstock.log.segment import Segment
from penstock.world.ports import FileRange


def slice_of(
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
    span = None
    if byte_count > 0:
        span = FileRange(file=segment.file, position=position, byte_count=byte_count)
    assert position + byte_count <= max(limit, position), (bounds, limit)
    return LogSlice(span=span, segment_base_offset=segment.base_offset, position=position)

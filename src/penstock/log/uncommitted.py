"""Transactions whose markers are in a log, but above its high watermark.

A replica keeps them as they are appended (`ProducerStates.ended`). One that starts with a high
watermark below the end of its log has them from recovery, if that has passed them, or finds them
here: from a producer snapshot and the batches after it, if there is a marker at all.
"""

from collections.abc import Sequence

from penstock.log.memory import LogMemory
from penstock.log.producer_replay import replay
from penstock.log.producer_state import NO_COORDINATOR_EPOCH, ProducerStates
from penstock.log.segment import Segment
from penstock.log.segments import slot_of
from penstock.model.offset import Offset


def uncommitted_ends(
    memory: LogMemory, segments: Sequence[Segment], *, above: Offset
) -> list[tuple[Offset, Offset]]:
    """As `ProducerStates.ended`, of the markers that end above an offset."""
    known = memory.producers
    opened, memory.opened = memory.opened, None
    if opened is not None and opened.above <= above and opened.end_offset == known.end_offset:
        return [ended for ended in opened.ended if ended[0] > above]
    if above >= known.end_offset or not any(
        producer.coordinator_epoch != NO_COORDINATOR_EPOCH for producer in known.by_id.values()
    ):
        return []
    if not _has_marker(segments, above=above):
        return []
    producers = ProducerStates(expiry_ms=known.expiry_ms)
    memory.begin_replay(producers, above, first_offset=memory.start_offset)
    producers.note_ended(above)
    for _ in replay(producers, segments, until_offset=known.end_offset):
        pass
    return list(producers.ended)


def _has_marker(segments: Sequence[Segment], *, above: Offset) -> bool:
    """Whether a marker ends above an offset. What is above it is short, as a rule."""
    for segment in segments[slot_of(segments, above) :]:
        if segment.size_bytes == 0:
            continue
        for _, header in segment.headers_from(segment.position_of(above)):
            if header.is_control and header.next_offset > above:
                return True
    return False

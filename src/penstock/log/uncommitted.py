"""Transactions whose markers are in a log, but above its high watermark.

A replica keeps them as they are appended (`ProducerStates.ended`). One that starts with a high
watermark below the end of its log finds them here, from a producer snapshot and the batches after
it. There are none in most logs, and that costs nothing to find out.
"""

from penstock.log.memory import LogMemory
from penstock.log.producer_replay import replay
from penstock.log.producer_state import NO_COORDINATOR_EPOCH, ProducerStates
from penstock.log.segment import Segment
from penstock.model.offset import Offset


def uncommitted_ends(
    memory: LogMemory, segments: list[Segment], *, above: Offset
) -> list[tuple[Offset, Offset]]:
    """As `ProducerStates.ended`, of the markers that end above an offset."""
    known = memory.producers
    if above >= known.end_offset or not any(
        producer.coordinator_epoch != NO_COORDINATOR_EPOCH for producer in known.by_id.values()
    ):
        return []
    producers = ProducerStates(expiry_ms=known.expiry_ms)
    found = memory.snapshots.newest(above)
    if found is None or found[0] <= memory.start_offset:
        producers.clear(min(memory.start_offset, segments[0].base_offset))
    else:
        producers.restore(found[1], found[0])
    producers.note_ended(above)
    for slot, segment in enumerate(segments):
        is_last = slot + 1 == len(segments)
        ends = known.end_offset if is_last else segments[slot + 1].base_offset
        if ends > producers.end_offset:
            replay(producers, segment)
    return list(producers.ended)

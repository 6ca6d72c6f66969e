"""Removes batches from the end of a log, or all of them.

Both change several files, and a crash may come between any two changes: after each step the files
can be recovered. The recovery point is lowered before the first step (`Durability.lower`).
"""

from penstock.log.durability import Durability
from penstock.log.memory import LogMemory
from penstock.log.segments import Segments
from penstock.model.offset import Offset


def cut_off(
    segments: Segments,
    memory: LogMemory,
    durability: Durability,
    *,
    offset: Offset,
    end_offset: Offset,
) -> Offset:
    """Removes every whole batch that reaches `offset` or beyond; returns the new end of the log."""
    durability.unsynced.forget(*memory.snapshots.remove_above(offset))
    while segments.row[-1].base_offset > offset or (
        segments.row[-1].base_offset == offset and len(segments.row) > 1
    ):
        durability.segment_gone(segments.retire_last())
    segments.reactivate()
    # Recovery takes a saved index as a sign that a segment is whole.
    durability.unsynced.forget(*segments.active.remove_saved_indexes())
    durability.sync_names()
    segments.truncate_active(offset)
    # Unsynced, a shorter file may be the longer one again after a power loss.
    durability.segment_saved(segments.active, end_offset=end_offset)
    end_offset = segments.active.end_offset()
    durability.unsynced.forget(*memory.snapshots.remove_above(end_offset))
    memory.epochs.truncate_end(end_offset)
    memory.load(segments.row, until_offset=end_offset, trust_absence=False)
    return end_offset


def empty(
    segments: Segments,
    memory: LogMemory,
    durability: Durability,
    *,
    offset: Offset,
    now_ms: int,
) -> None:
    """Drops everything; the log continues at `offset`, which is on disk as its start already.

    Recovery drops segments that end below the start offset, so the old segments cannot come back.
    """
    durability.unsynced.forget(*memory.snapshots.remove_all())
    while segments.row:
        durability.segment_gone(segments.retire_last())
    segments.begin_anew(offset, now_ms=now_ms)
    durability.sync_names()
    memory.producers.clear(offset)
    memory.epochs.clear()

"""Removes batches from the end of a log, or all of them.

Both change several files, and a crash may come between any two changes: after each step the files
can be recovered. The recovery point is lowered before the first step (`Durability.lower`).

Of several segments that are removed, a power loss may bring back any. Recovery takes a gap behind a
segment that is whole for one that compaction has left, and a saved index for the sign that it is
whole: so the indexes go first, for good, and then the segments.
"""

from penstock.log.durability import Durability
from penstock.log.memory import LogMemory
from penstock.log.segments import Segments, slot_of
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
    kept = slot_of(segments.row, Offset(offset - 1))
    indexes = segments.row[kept].indexes
    _remove_indexes(segments, durability, first=kept)
    while len(segments.row) > kept + 1:
        durability.segment_gone(segments.retire_last())
    segments.reactivate(indexes)
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

    Recovery drops segments that end below the start offset, so those cannot come back.
    """
    durability.unsynced.forget(*memory.snapshots.remove_all())
    _remove_indexes(segments, durability, first=0)
    while segments.row:
        durability.segment_gone(segments.retire_last())
    segments.begin_anew(offset, now_ms=now_ms)
    durability.sync_names()
    memory.producers.clear(offset)
    memory.epochs.clear()
    # Epochs below the offset would be believed after a crash: recovery cuts only those above it.
    memory.save_epochs(offset)


def _remove_indexes(segments: Segments, durability: Durability, *, first: int) -> None:
    """Removes the saved indexes of the segments from `first` on; for good, if there are several."""
    for segment in segments.row[first:]:
        durability.unsynced.forget(*segment.remove_saved_indexes())
    if len(segments.row) - first > 1:
        durability.sync_names()

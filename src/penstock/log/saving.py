"""What a log writes besides its batches, when a segment ends and at a clean stop.

Indexes, producers, leader epochs: all of them follow from the batches, and save the next start from
reading these.
"""

from penstock.log.durability import Durability
from penstock.log.memory import LogMemory
from penstock.log.segments import Segments
from penstock.model.offset import Offset


def roll(
    segments: Segments,
    memory: LogMemory,
    durability: Durability,
    *,
    base_offset: Offset,
    end_offset: Offset,
    now_ms: int,
) -> None:
    """Begins a segment. Indexes, snapshot and new files are written before memory changes."""
    old = segments.active
    assert base_offset > old.base_offset, (base_offset, old)
    durability.make_names_last()
    old.save_indexes()
    snapshot = memory.snapshots.write(memory.producers)
    segments.begin(base_offset, now_ms=now_ms)
    durability.unsynced.directory = True
    durability.file_written(snapshot, end_offset=base_offset)
    durability.segment_saved(old, end_offset=end_offset)


def save_active(
    segments: Segments, memory: LogMemory, durability: Durability, *, end_offset: Offset
) -> None:
    """Before a clean stop: saves the active segment, and the producers at its end."""
    active = segments.active
    # It has this size already, but a file whose last write or sync failed raises an error, and
    # then the stop is not a clean one.
    active.file.truncate(active.size_bytes)
    active.save_indexes()
    durability.segment_saved(active, end_offset=end_offset)
    snapshot = memory.snapshots.write(memory.producers)
    durability.file_written(snapshot, end_offset=end_offset)

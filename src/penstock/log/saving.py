"""What a log writes besides its batches: when a segment ends, and at a clean stop.

Indexes, the producers, the leader epochs: all of it follows from the batches, and spares the next
start the reading of them.
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
    """Begins a segment. On disk: indexes, snapshot, new files; only then does memory change."""
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
    """Before a clean stop: the segment that is written to, and the producers at its end."""
    active = segments.active
    # As long as it is already: but a file whose last write or sync failed refuses, and then the
    # stop is no clean one.
    active.file.truncate(active.size_bytes)
    active.save_indexes()
    durability.segment_saved(active, end_offset=end_offset)
    snapshot = memory.snapshots.write(memory.producers)
    durability.file_written(snapshot, end_offset=end_offset)

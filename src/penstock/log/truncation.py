"""Removes batches from the end of a log, or all of them.

Both change several files, and a crash may come between any two changes: after each step the files
can be recovered. The recovery point is lowered before the first step (`Durability.lower`).

Of several segments that are removed, a power loss may bring back any. Recovery takes a gap behind a
segment that is whole for one that compaction has left, and a saved index for the sign that it is
whole: so the indexes go first, for good, and then the segments.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from penstock.log.durability import Durability
from penstock.log.errors import CorruptLog
from penstock.log.memory import LogMemory
from penstock.log.producer_replay import replay
from penstock.log.producer_state import ProducerStates
from penstock.log.segment import Segment
from penstock.log.segments import Segments, slot_of
from penstock.model.offset import Offset
from penstock.world.errors import DiskError


class Cut:
    """The producers as of the offset that a log is to be cut to, found in steps before that.

    They come from the newest snapshot and a replay, which may take seconds. The log is used as ever
    meanwhile; if its segments change, the replay begins anew.
    """

    __slots__ = ("_memory", "_row", "_segments", "_steps", "is_ready", "offset", "producers")

    def __init__(self, memory: LogMemory, row: Sequence[Segment], *, offset: Offset) -> None:
        self.offset = offset
        self.is_ready = False
        self.producers = ProducerStates(expiry_ms=memory.producers.expiry_ms)
        self._memory = memory
        self._row = row
        self._begin()

    @property
    def is_valid(self) -> bool:
        """Whether it is ready, and the log as it was."""
        return self.is_ready and self._is_current()

    def step(self) -> bool:
        """Whether it is ready. CorruptLog, DiskError: nothing has changed."""
        if not self._is_current():
            self._begin()
        for _ in self._steps:
            return False
        self.is_ready = True
        return True

    def _begin(self) -> None:
        self.is_ready = False
        self._segments = tuple(self._row[: slot_of(self._row, Offset(self.offset - 1)) + 1])
        self._steps = self._replay()

    def _is_current(self) -> bool:
        return self._segments == tuple(self._row[: len(self._segments)])

    def _replay(self) -> Iterator[None]:
        start_offset = self._memory.start_offset
        if not self._memory.producers.by_id or self.offset < start_offset:
            return  # there were none at an earlier offset but such as have expired; or all goes
        # Deleted records count while they are in the files: they may be repeated. But they may be
        # damaged, too.
        with suppress(CorruptLog, DiskError):
            yield from self._replay_from(self._segments[0].base_offset)
            return
        yield from self._replay_from(start_offset)

    def _replay_from(self, first_offset: Offset) -> Iterator[None]:
        self._memory.begin_replay(self.producers, self.offset, first_offset=first_offset)
        yield from replay(self.producers, self._segments, until_offset=self.offset)


def cut_off(
    segments: Segments,
    memory: LogMemory,
    durability: Durability,
    *,
    cut: Cut,
    end_offset: Offset,
    new_end_offset: Offset,
) -> None:
    """Removes every whole batch that reaches the offset of the cut or beyond. The log will end at
    `new_end_offset`, and has been prepared for that.
    """
    assert cut.is_valid, cut.offset
    offset = cut.offset
    durability.unsynced.forget(*memory.snapshots.remove_above(new_end_offset))
    kept = slot_of(segments.row, Offset(offset - 1))
    indexes = segments.row[kept].indexes
    _remove_indexes(segments, durability, first=kept)
    while len(segments.row) > kept + 1:
        durability.segment_gone(segments.retire_last())
    segments.reactivate(indexes)
    durability.sync_names()
    segments.truncate_active(offset)
    # Unsynced, a shorter file may be the longer one again after a power loss.
    segments.active.file.sync()
    durability.segment_saved(segments.active, end_offset=end_offset)
    memory.epochs.truncate_end(new_end_offset)
    memory.producers.restore(cut.producers.by_id, new_end_offset)


def beyond_return(error: DiskError) -> DiskError:
    """Of a step that failed after others had been done: files and memory do not agree, so that room
    on the disk alone does not help. The next start puts it right.
    """
    return DiskError(error.path, error.reason)


def keep_producers(
    memory: LogMemory, durability: Durability, known: ProducerStates, *, offset: Offset
) -> None:
    """Before `remove_all` or `begin_anew`: a snapshot of the producers as of `offset`, from where
    the log goes on. They may repeat their last batches, though their records are deleted. It is
    synced, since no record will tell of them any more.
    """
    if known.end_offset < offset:
        known.pass_over(offset)
    memory.snapshots.write(known)
    durability.sync_file(memory.snapshots.path(offset))


def remove_all(
    segments: Segments, memory: LogMemory, durability: Durability, kept: Collection[Offset]
) -> None:
    """Drops everything but the snapshots at the offsets that are `kept`; `begin_anew` follows.

    The epochs stay until then: if a crash comes between the two, a follower asks its leader by them
    where to go on. Snapshots of a log that nothing is kept of go first, so that none is believed
    without its segments. Else they go last: a segment that a crash leaves needs the one at its
    base, the only memory of producers whose records were deleted.
    """
    if not kept:
        durability.unsynced.forget(*memory.snapshots.remove_all())
    _remove_indexes(segments, durability, first=0)
    while segments.row:
        if len(segments.row) == 1:
            # First the others go for good: one that came back alone would be all of the log.
            durability.make_names_last()
        durability.segment_gone(segments.retire_last())
    if kept:
        durability.sync_names()
        durability.unsynced.forget(*memory.snapshots.remove_all(but=kept))


def begin_anew(
    segments: Segments,
    memory: LogMemory,
    durability: Durability,
    *,
    offset: Offset,
    known_until: Offset,
    now_ms: int,
) -> None:
    """The log continues at `offset`, which is on disk as its start already. Epochs from
    `known_until` on are forgotten: they are not those of the log that comes.

    Recovery drops segments that end below the start offset, so those cannot come back.
    """
    segments.begin_anew(offset, now_ms=now_ms)
    durability.sync_names()
    memory.producers.clear(offset)
    memory.epochs.truncate_end(known_until)
    # Those on disk would be believed after a crash: recovery cuts only those above the offset.
    memory.save_epochs(known_until)


def _remove_indexes(segments: Segments, durability: Durability, *, first: int) -> None:
    """Removes the saved indexes of the segments from `first` on; for good, if there are several."""
    for segment in segments.row[first:]:
        durability.unsynced.forget(*segment.remove_saved_indexes())
    if len(segments.row) - first > 1:
        durability.sync_names()

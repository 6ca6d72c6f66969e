"""The log of one partition: a row of segments that grows at its end.

    start_offset                                 recovery_point            end_offset
      |  segment 0   |   segment 1   |   segment 2 (active)   :                |
      [..............)[..............)[.............................)

Offsets in [start_offset, end_offset) can be read. Below the recovery point all bytes are synced; a
crash makes the next start look at what lies above it (`log/recovery`).

Invariants:
 1. Segments are in order of base offset; the last one is active and the only one written to.
 2. start_offset <= end_offset, recovery_point <= end_offset; the first segment begins at or below
    start_offset, unless the log is empty there.
 3. The recovery point on disk never exceeds what is synced: it moves up after the sync, and goes
    down before anything below it is rewritten.
 4. Producers and epochs reflect exactly the batches up to end_offset.
 5. An append that fails has changed nothing that a reader or a restart could see.

Start reading at `PartitionLog.append` and `PartitionLog.read`.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from penstock.log.aborted_index import AbortedTransaction, aborted_within
from penstock.log.compaction.swap import Swaps
from penstock.log.creation import new_segment
from penstock.log.epochs import EpochEnd, LeaderEpochs
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.opening import LeftBehind, LogParts, open_parts
from penstock.log.producer_state import ProducerStates
from penstock.log.reading import LogSlice, ReadBounds, TimedOffset
from penstock.log.recovery import slot_of
from penstock.log.removals import Removals
from penstock.log.rolling import must_roll, roll_limits
from penstock.log.segment import Segment
from penstock.log.slicing import read_slice
from penstock.log.time_search import first_at_or_after, of_max_timestamp
from penstock.log.trouble import OffsetOutOfRange
from penstock.log.unsynced import Unsynced
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.layout import FIRST_OFFSET
from penstock.world.ports import Disk, File
from penstock.world.trouble import DiskError

PRODUCER_EXPIRY_MS = 86_400_000


class Checkpoints(Protocol):
    """Puts on disk what the open logs say of themselves; done when the call returns."""

    def save_recovery_points(self) -> None: ...

    def save_start_offsets(self) -> None: ...


class PartitionLog:
    """One partition on disk; see the module's invariants. Everything is synchronous."""

    def __init__(
        self,
        parts: LogParts,
        *,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        settings: TopicSettings,
        recovery_point: Offset,
        cleaned_offset: Offset | None,
        loaded: LoadedIndexes,
        checkpoints: Checkpoints | None,
        removals: Removals,
        now_ms: int,
    ) -> None:
        self.partition = partition
        self.topic_id = parts.topic_id
        self.directory = directory
        self.settings = settings
        self.segments = parts.segments
        self.start_offset = parts.memory.start_offset
        self.end_offset = parts.end_offset
        self.recovery_point = min(recovery_point, parts.end_offset)
        self.cleaned_offset = cleaned_offset  # how far it is compacted; None: not at all
        self.recovery = parts.recovery
        self.is_closed = False
        self._disk = disk
        self._memory = parts.memory
        self._loaded = loaded
        self._active = parts.segments[-1]
        self._limits = roll_limits(self._active, settings)
        self._now_ms = now_ms  # as of the last call that told it
        self._unsynced = Unsynced(disk, directory)
        self.swaps = Swaps(
            disk=disk,
            directory=directory,
            segments=self.segments,
            loaded=loaded,
            snapshots=parts.memory.snapshots,
            unsynced=self._unsynced,
        )
        self._checkpoints = checkpoints
        self._removals = removals
        # Whether the disk holds what a clean stop leaves: then closing has nothing to write.
        self._as_closed = False
        self._settle(fresh=parts.fresh)

    @classmethod
    def open(
        cls,
        *,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        now_ms: int,
        recovery_point: Offset = FIRST_OFFSET,
        clean: bool = False,
        start_offset: Offset = FIRST_OFFSET,
        cleaned_offset: Offset | None = None,
        producer_expiry_ms: int = PRODUCER_EXPIRY_MS,
        loaded: LoadedIndexes | None = None,
        checkpoints: Checkpoints | None = None,
        removals: Removals | None = None,
    ) -> "PartitionLog":
        """Loads the log in `directory`, or makes one that begins at `start_offset`."""
        loaded = LoadedIndexes() if loaded is None else loaded
        parts = open_parts(
            disk,
            directory,
            topic_id=topic_id,
            settings=settings,
            left=LeftBehind(clean=clean, recovery_point=recovery_point, start_offset=start_offset),
            now_ms=now_ms,
            producer_expiry_ms=producer_expiry_ms,
            loaded=loaded,
        )
        return cls(
            parts,
            disk=disk,
            directory=directory,
            partition=partition,
            settings=settings,
            recovery_point=recovery_point,
            cleaned_offset=cleaned_offset,
            loaded=loaded,
            checkpoints=checkpoints,
            removals=Removals() if removals is None else removals,
            now_ms=now_ms,
        )

    # Queries

    @property
    def producers(self) -> ProducerStates:
        return self._memory.producers

    @property
    def epochs(self) -> LeaderEpochs:
        return self._memory.epochs

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def read(self, bounds: ReadBounds) -> LogSlice:
        """A slice that begins with the batch that holds `from_offset`; see `log/reading`."""
        offset = bounds.from_offset
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                offset, start_offset=self.start_offset, end_offset=self.end_offset
            )
        assert bounds.until_offset <= self.end_offset, (bounds, self.end_offset)
        return read_slice(self.segments, bounds, end_offset=self.end_offset)

    def batches_from(self, offset: Offset) -> Iterator[BatchView]:
        """Every batch that reaches `offset` or beyond, up to where the log ends now."""
        end_offset = self.end_offset
        for segment in self.segments[slot_of(self.segments, offset) :]:
            if segment.size_bytes == 0:
                continue
            for _, batch in segment.batches(start=segment.position_of(offset)):
                if batch.base_offset >= end_offset:
                    return
                yield batch

    def offset_at_time(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record of `timestamp_ms` or later."""
        return first_at_or_after(self.segments, timestamp_ms, start_offset=self.start_offset)

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """The first record that has the largest timestamp."""
        return of_max_timestamp(self.segments)

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """Where a leader epoch ended here; None when it is unknown (see `LeaderEpochs.end_of`)."""
        return self.epochs.end_of(epoch, end_offset=self.end_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        return self.epochs.epoch_at(offset)

    def aborted_within(
        self, *, from_offset: Offset, until_offset: Offset
    ) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that a `read_committed` reader of this range must know."""
        found: list[AbortedTransaction] = []
        for segment in self.segments[slot_of(self.segments, from_offset) :]:
            found.extend(segment.aborted_transactions)
            if any(one.last_stable_offset >= until_offset for one in segment.aborted_transactions):
                break
        return aborted_within(found, from_offset=from_offset, until_offset=until_offset)

    # Commands

    def append(self, batches: Sequence[BatchView], *, now_ms: int) -> None:
        """Writes batches that carry their offsets and epochs already. DiskError: nothing changed.

        One write of the batches' own memory: no copy.
        """
        first, last = batches[0], batches[-1]
        assert first.base_offset >= self.end_offset, (self.end_offset, first)
        self._now_ms = now_ms
        active, limits = self._active, self._limits
        if (
            len(batches) != 1
            or active.size_bytes + first.size_bytes > limits.size_bytes
            or first.max_timestamp > limits.timestamp_ms
            or first.last_offset > limits.last_offset
        ):
            active = self._segment_for(batches)
        active.append(batches, interval_bytes=self.settings.index_interval_bytes)
        # The bytes are in the page cache; from here on nothing can fail.
        for batch in batches:
            self._memory.take_up(batch, active)
        self.end_offset = last.next_offset
        self._as_closed = False
        assert self.producers.end_offset == self.end_offset, "invariant 4"

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """A leader begins to write here under `epoch`: from the end of the log on."""
        self.epochs.assign(epoch, self.end_offset)

    def reconfigure(self, settings: TopicSettings) -> None:
        self.settings = settings
        self._limits = roll_limits(self._active, settings)

    def roll(self) -> None:
        """Begins a new segment, unless the active one is empty."""
        if self._active.size_bytes > 0:
            self._roll(self.end_offset)

    def advance_start(self, offset: Offset) -> None:
        """Forgets what lies below `offset`; whole segments below it are deleted.

        DiskError: either nothing has moved, or segments are left that the next call deletes.
        """
        before = self.start_offset
        if offset > before:
            self.move_start(offset)
            try:
                self._save_start_offset()
            except DiskError:
                self.move_start(before)
                raise
        self.drop_below_start()

    def move_start(self, offset: Offset) -> None:
        """In memory alone: for who saves the new starts of many logs at once, or takes one back."""
        assert offset <= self.end_offset, (offset, self.end_offset)
        self.start_offset = self._memory.start_offset = offset

    def drop_below_start(self) -> None:
        """Deletes whole segments below the start, which must be on disk by now."""
        while self.drop_oldest():
            pass

    def drop_oldest(self) -> bool:
        """The same for one segment at most; whether there are more."""
        if self._is_below(self.start_offset):
            self._retire(self.segments[0])
            del self.segments[0]
        self.epochs.truncate_start(self.start_offset)
        first = min(self.start_offset, self.segments[0].base_offset)
        self._unsynced.forget(*self._memory.snapshots.remove_until(first))
        return self._is_below(self.start_offset)

    def advance_by_name(self, offset: Offset) -> bool:
        """Drops the oldest segment if all of it lies below `offset`; whether there are more.

        By renaming alone, for which a full disk has room: a log begins with its first segment at
        the earliest. The names last before the next one goes, or a power loss could leave a hole.
        """
        if self._is_below(offset):
            self.move_start(max(self.start_offset, self.segments[1].base_offset))
            self.drop_oldest()
            self._disk.sync_directory(self.directory)
        return self._is_below(offset)

    def truncate_to(self, offset: Offset) -> None:
        """Cuts off every batch that reaches `offset` or beyond, as a whole."""
        if offset >= self.end_offset:
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self.swaps.drop()
        self._lower_recovery_point(offset)
        self._as_closed = False
        self._unsynced.forget(*self._memory.snapshots.remove_above(offset))
        while self._active.base_offset > offset or (
            self._active.base_offset == offset and len(self.segments) > 1
        ):
            self._retire(self._active)
            self.segments.pop()
            self._active = self.segments[-1]
        if not self._active.is_active:
            self._active.activate()
        # Recovery takes a saved index as a sign that a segment is whole.
        self._unsynced.forget(*self._active.remove_saved_indexes())
        self._disk.sync_directory(self.directory)
        self._active.truncate(offset)
        # Unsynced, a shorter file may be the longer one again after a power loss.
        self._note_saved(self._active)
        self._limits = roll_limits(self._active, self.settings)
        self._reload_memory()

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drops everything: the log is empty and begins at `offset`."""
        assert offset >= 0, offset
        self.swaps.drop()
        self._as_closed = False
        self._lower_recovery_point(offset)
        before = self.start_offset
        self.start_offset = self._memory.start_offset = offset
        # This is what decides: found with a start beyond their end, old segments are dropped.
        try:
            self._save_start_offset()
        except DiskError:
            self.start_offset = self._memory.start_offset = before
            raise
        self._unsynced.forget(*self._memory.snapshots.remove_all())
        while self.segments:
            self._retire(self.segments[-1])
            self.segments.pop()
        self._active = new_segment(self._disk, self.directory, offset, self._now_ms, self._loaded)
        self._active.activate()
        self._limits = roll_limits(self._active, self.settings)
        self.segments.append(self._active)
        self._disk.sync_directory(self.directory)
        self.end_offset = offset
        self.producers.clear(offset)
        self.epochs.clear()

    def expire_producers(self, now_ms: int) -> None:
        self.producers.expire(now_ms)

    # Making it last

    @property
    def wants_sync(self) -> bool:
        """Whether a sealed segment waits for its sync: until then a crash makes it be scanned."""
        return len(self._unsynced) > 0 and self._active.base_offset > self.recovery_point

    def unsynced_files(self) -> list[File]:
        """What to sync so that all up to the present `end_offset` lasts.

        Note the end offset, hand the files to `Disk.sync` in the same step, and call `mark_synced`
        with that offset when it is done; one sync of a log at a time.
        """
        files = self._unsynced.begin(self.end_offset)
        if self.end_offset > self.recovery_point:
            files.append(self._active.file)
        return files

    def mark_synced(self, offset: Offset) -> None:
        """The files of `unsynced_files`, asked for when the log ended at `offset`, are synced."""
        offset = self._unsynced.finish(offset)
        if offset > self.recovery_point:
            self._memory.save_epochs(self.end_offset)
            self.recovery_point = min(offset, self.end_offset)

    def sync(self) -> None:
        """The same at once, on this thread."""
        for file in self.unsynced_files():
            file.sync()
        self.mark_synced(self.end_offset)

    def close(self) -> None:
        """Leaves on disk what the next start needs to scan nothing, and lets go of the files."""
        if not self.is_closed:
            self._disk.sync_all(self.leave())
            self.left()

    def leave(self) -> list[str]:
        """The first half of `close`, for many logs at once: writes; what is to be synced now."""
        assert not self.is_closed
        if not self._as_closed:
            # As long as it is already: but a file whose last write or sync failed refuses, and then
            # the stop is no clean one.
            self._active.file.truncate(self._active.size_bytes)
            self._active.save_indexes()
            self._note_saved(self._active)
            self._write_snapshot()
        epochs = self._memory.write_epochs(self.end_offset)
        if epochs is not None:
            self._unsynced.add(epochs, self.end_offset)
            self._unsynced.directory = True
        return self._unsynced.paths

    def left(self) -> None:
        """The second half: everything named by `leave` is on the platter."""
        self._unsynced.clear()
        self._as_closed = True
        self.recovery_point = self.end_offset
        self.abandon()

    def retire(self) -> None:
        """Lets go of the log, whose directory is about to be renamed. Readers read on."""
        for segment in self.segments:
            segment.hold()
        self.abandon()

    def abandon(self) -> None:
        """Lets go of the files without writing anything: what a crash would leave."""
        self.is_closed = True
        self._unsynced.let_go()
        for segment in self.segments:
            segment.let_go()

    def check(self) -> None:
        """The module's invariants."""
        for earlier, later in zip(self.segments, self.segments[1:], strict=False):
            assert earlier.base_offset < later.base_offset, "invariant 1"
            assert not earlier.is_active, "invariant 1"
        assert self.segments[-1] is self._active, "invariant 1"
        assert self._active.is_active, "invariant 1"
        assert self.start_offset <= self.end_offset, "invariant 2"
        assert self.recovery_point <= self.end_offset, "invariant 2"
        assert self.segments[0].base_offset <= self.start_offset, "invariant 2"
        assert self._active.base_offset <= self.end_offset, "invariant 2"
        assert self.producers.end_offset == self.end_offset, "invariant 4"
        self.producers.check()
        self.epochs.check()

    def _segment_for(self, batches: Sequence[BatchView]) -> Segment:
        """The segment that takes these batches: a new one, if it must be."""
        if must_roll(self._active, batches, settings=self.settings, now_ms=self._now_ms):
            self._roll(batches[0].base_offset)
        self._limits = roll_limits(self._active, self.settings)
        return self._active

    def _roll(self, base_offset: Offset) -> None:
        """Begins a segment. On disk: indexes, snapshot, new files; only then does memory change."""
        old = self._active
        assert base_offset > old.base_offset, (base_offset, old)
        if self._unsynced.directory:
            # The name of a segment must last before the next one's can, or a log may come back
            # without its beginning.
            self._disk.sync_directory(self.directory)
            self._unsynced.directory = False
        old.save_indexes()
        snapshot = self._memory.snapshots.write(self.producers)
        new = new_segment(self._disk, self.directory, base_offset, self._now_ms, self._loaded)
        old.seal()
        new.activate()
        self.segments.append(new)
        self._active = new
        self._limits = roll_limits(new, self.settings)
        self._unsynced.directory = True
        self._as_closed = False
        if snapshot is not None:
            self._unsynced.add(snapshot, base_offset)
        self._note_saved(old)

    def _is_below(self, offset: Offset) -> bool:
        """Whether the oldest segment lies below `offset` as a whole, and is not the only one."""
        return len(self.segments) > 1 and self.segments[1].base_offset <= offset

    def _retire(self, segment: Segment) -> None:
        """Deletes a segment; its files go when `file.delete.delay.ms` is over."""
        retired = segment.retire_files()
        self._removals.add(*retired, delay_ms=self.settings.file_delete_delay_ms)
        self._unsynced.forget(*segment.paths)
        self._unsynced.directory = True

    def _note_saved(self, segment: Segment) -> None:
        for path in segment.paths:
            if self._disk.exists(path):
                self._unsynced.add(path, self.end_offset)

    def _write_snapshot(self) -> None:
        path = self._memory.snapshots.write(self.producers)
        if path is not None:
            self._unsynced.add(path, self.end_offset)
            self._unsynced.directory = True

    def _lower_recovery_point(self, offset: Offset) -> None:
        self._unsynced.lower(offset)
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
        before = self.recovery_point
        if offset < before:
            self.recovery_point = offset
            try:
                self._save_recovery_point()
            except DiskError:
                self.recovery_point = before
                raise

    def _save_recovery_point(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save_recovery_points()

    def _save_start_offset(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save_start_offsets()

    def _reload_memory(self) -> None:
        """After a cut: what the log remembers becomes that of the batches which are left."""
        self.end_offset = self._active.end_offset()
        self._unsynced.forget(*self._memory.snapshots.remove_above(self.end_offset))
        self.epochs.truncate_end(self.end_offset)
        self._memory.load(self.segments, until_offset=self.end_offset, trust_absence=False)
        self.producers.expire(self._now_ms)
        # The cut takes whole batches, so the log may end below the offset that was asked for.
        self._lower_recovery_point(self.end_offset)
        if self.start_offset > self.end_offset:
            self.move_start(self.end_offset)
            self._save_start_offset()

    def _settle(self, *, fresh: bool) -> None:
        """The last step of opening: nothing remembers what the log does not hold."""
        if self.end_offset < self.start_offset:
            self.truncate_fully_and_start_at(self.start_offset)
        self.epochs.truncate_end(self.end_offset)
        self.epochs.truncate_start(self.start_offset)
        snapshots = self._memory.snapshots
        snapshots.remove_above(self.end_offset)
        snapshots.remove_strays({segment.base_offset for segment in self.segments})
        self.producers.expire(self._now_ms)
        if self.recovery.clean and self.recovery.segments_scanned == 0:
            self.recovery_point = self.end_offset
            self._as_closed = not fresh
        else:
            for segment in self.segments[slot_of(self.segments, self.recovery_point) :]:
                self._note_saved(segment)
        self._unsynced.directory = not self._as_closed
        self.check()

"""The log of one partition: a sequence of segments that grows at its end.

    start_offset                                 recovery_point            end_offset
      |  segment 0   |   segment 1   |   segment 2 (active)   :                |
      [..............)[..............)[.............................)

Offsets in [start_offset, end_offset) can be read. This module combines the parts: `segments` hold
the batches, `memory` the state that follows from them, `saving` writes that state, `durability`
tracks what would survive a crash, and `truncation` removes batches from the end.

Invariants:
 1. start_offset <= end_offset, recovery_point <= end_offset; the first segment begins at or below
    start_offset, unless the log is empty there.
 2. Producers and epochs reflect exactly the batches up to end_offset.
 3. An append that fails has changed nothing that a reader or a restart could see.

Start reading at `PartitionLog.append` and `PartitionLog.read`.
"""

from collections.abc import Iterator, Sequence

from penstock.log.aborted_index import AbortedTransaction
from penstock.log.compaction.swap import Swaps
from penstock.log.durability import Checkpoints, Durability
from penstock.log.epochs import EpochEnd, LeaderEpochs
from penstock.log.errors import OffsetOutOfRange
from penstock.log.layout import RELATIVE_OFFSET_MAX
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.parts import LogParts
from penstock.log.producer_state import ProducerStates
from penstock.log.reading import LogSlice, ReadBounds, TimedOffset
from penstock.log.removals import Removals
from penstock.log.run import check_run
from penstock.log.saving import roll, save_active
from penstock.log.segments import Segments, first_unsynced, slot_of
from penstock.log.slicing import read_slice
from penstock.log.time_search import first_at_or_after, of_max_timestamp
from penstock.log.truncation import (
    Cut,
    begin_anew,
    beyond_return,
    cut_off,
    keep_producers,
    remove_all,
)
from penstock.log.uncommitted import uncommitted_ends
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchHeader, BatchView
from penstock.records.layout import FIRST_OFFSET
from penstock.world.errors import DiskError
from penstock.world.ports import Disk, File


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
        watermark: Offset | None,
        loaded: LoadedIndexes,
        checkpoints: Checkpoints | None,
        removals: Removals,
        now_ms: int,
    ) -> None:
        self.partition = partition
        self.topic_id = parts.topic_id
        self.directory = directory
        self.settings = settings
        self.segments = parts.segments  # the row of `_segments`
        self.start_offset = parts.memory.start_offset
        self.end_offset = parts.end_offset
        self.cleaned_offset = cleaned_offset  # how far it is compacted; None: not at all
        self.recovery = parts.recovery
        self.is_closed = False
        self._disk = disk
        self._memory = parts.memory
        self._now_ms = now_ms  # as of the last call that told it
        self._segments = Segments(
            parts.segments,
            disk=disk,
            directory=directory,
            settings=settings,
            loaded=loaded,
            removals=removals,
        )
        self._durability = Durability(
            disk=disk,
            directory=directory,
            recovery_point=min(recovery_point, parts.end_offset),
            watermark=None if watermark is None else min(watermark, parts.end_offset),
            checkpoints=checkpoints,
        )
        self.swaps = Swaps(
            disk=disk,
            directory=directory,
            segments=self.segments,
            loaded=loaded,
            snapshots=parts.memory.snapshots,
            unsynced=self._durability.unsynced,
        )
        # Whether the disk holds what a clean stop leaves: then closing has nothing to write.
        self._as_closed = False
        self._settle(fresh=parts.fresh)

    # Queries

    @property
    def producers(self) -> ProducerStates:
        return self._memory.producers

    @property
    def epochs(self) -> LeaderEpochs:
        return self._memory.epochs

    @property
    def recovery_point(self) -> Offset:
        """Everything below it is synced."""
        return self._durability.recovery_point

    @property
    def noted_watermark(self) -> Offset | None:
        """The high watermark to be stored with the checkpoints; None: none is known."""
        return self._durability.watermark

    @property
    def checkpointed_watermark(self) -> Offset:
        """The same, for a replica that begins: within the log, and its start if none is known."""
        noted = self._durability.watermark
        return self.start_offset if noted is None else max(self.start_offset, noted)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

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
        return self._segments.batches_from(offset, end_offset=self.end_offset)

    def offset_at_time(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record of `timestamp_ms` or later."""
        return first_at_or_after(self.segments, timestamp_ms, start_offset=self.start_offset)

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """The first record that has the largest timestamp."""
        return of_max_timestamp(self.segments)

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """Where a leader epoch ended here, or the start of the log if it ended below; None when it
        is unknown (see `LeaderEpochs.end_of`).
        """
        found = self.epochs.end_of(epoch, end_offset=self.end_offset)
        if found is None or found.end_offset >= self.start_offset:
            return found
        return EpochEnd(leader_epoch=found.leader_epoch, end_offset=self.start_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        return self.epochs.epoch_at(offset)

    def aborted_within(
        self, *, from_offset: Offset, until_offset: Offset
    ) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that a `read_committed` reader of this range must know."""
        return self._segments.aborted_within(from_offset=from_offset, until_offset=until_offset)

    def uncommitted_ends(self, above: Offset) -> list[tuple[Offset, Offset]]:
        """As `ProducerStates.ended`, of the markers that end above an offset."""
        return uncommitted_ends(self._memory, self.segments, above=above)

    def end_of(self, found: LogSlice) -> Offset:
        """An offset beyond all batches of a slice."""
        return self._segments.end_of(found, end_offset=self.end_offset)

    # Commands

    def append(self, batches: Sequence[BatchView], *, now_ms: int) -> None:
        """Writes batches that have their offsets and epochs already. DiskError: nothing has
        changed.

        One write of the batches' own memory: no copy.
        """
        first, last = batches[0], batches[-1]
        assert first.base_offset >= self.end_offset, (self.end_offset, first)
        self._now_ms = now_ms
        segments = self._segments
        active, limits = segments.active, segments.limits
        if (
            len(batches) != 1
            or active.size_bytes + first.size_bytes > limits.size_bytes
            or first.max_timestamp > limits.timestamp_ms
            or first.last_offset > limits.last_offset
        ):
            if segments.must_roll(batches, now_ms=now_ms):
                self._roll(first.base_offset)
            active = segments.active
        active.append(batches, interval_bytes=self.settings.index_interval_bytes)
        # The bytes are in the page cache; from here on nothing can fail.
        for batch in batches:
            self._memory.take_up(batch, active)
        self.end_offset = last.next_offset
        self._as_closed = False
        assert self.producers.end_offset == self.end_offset, "invariant 2"

    def append_run(self, data: memoryview, *, leader_epoch: LeaderEpoch, now_ms: int) -> int:
        """Writes the batches that a leader sent to a follower in `leader_epoch`; returns how many
        bytes were taken: an incomplete batch at the end is left out (see `log/run`).

        CorruptRun: nothing has changed. DiskError: the batches below `end_offset` are written, the
        others are not. One write per segment of the run's own memory: no copy.
        """
        run = check_run(
            data,
            partition=self.partition,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            last_epoch=self.epochs.epoch_below(self.end_offset),
            leader_epoch=leader_epoch,
        )
        batches = run.batches
        if not batches:
            return 0
        self._now_ms = now_ms
        segments = self._segments
        if batches[0].base_offset < self.end_offset:
            self._begin_below_start(batches[0].base_offset)
        first = 0
        while first < len(batches):
            end = run.fitting(first, segments)
            if end == first:
                # A batch beyond the limits goes into the active segment all the same, or a new one.
                if segments.must_roll(batches[first : first + 1], now_ms=now_ms):
                    self._roll_before(batches[first])
                end = max(first + 1, run.fitting(first, segments))
            self._append_part(batches[first:end], data[run.ends[first] : run.ends[end]])
            first = end
        return run.ends[-1]

    def pass_over(self, offset: Offset, *, now_ms: int) -> None:
        """The log ends at `offset` from now on, without a record below it that was not there: in
        the log of which this one is a copy, compaction has taken them.
        """
        assert offset > self.end_offset, (offset, self.end_offset)
        self._now_ms = now_ms
        self._roll(offset)
        self.producers.pass_over(offset)
        self.end_offset = offset

    def take_over(self, source: "PartitionLog") -> None:
        """This log is a copy of all batches of `source`, and takes its place: what does not follow
        from them is taken over. `close` follows.
        """
        assert self.end_offset == source.end_offset, (self.end_offset, source.end_offset)
        assert self.start_offset == source.start_offset, (self.start_offset, source.start_offset)
        self.epochs.clear()
        for entry in source.epochs.entries:
            self.epochs.assign(entry.epoch, entry.start_offset)
        self.producers.restore(source.producers.by_id, self.end_offset)
        self._memory.snapshots.doubt(self.end_offset)
        self.cleaned_offset = source.cleaned_offset
        self._as_closed = False

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """A leader begins to write in `epoch`, from the end of the log on."""
        self.epochs.assign(epoch, self.end_offset)

    def reconfigure(self, settings: TopicSettings) -> None:
        self.settings = settings
        self._segments.reconfigure(settings)

    def roll(self) -> None:
        """Begins a new segment, unless the active one is empty."""
        if self._segments.active.size_bytes > 0:
            self._roll(self.end_offset)

    def advance_start(self, offset: Offset) -> None:
        """Moves the start to `offset`; whole segments below it are deleted.

        DiskError: either the start has not moved, or the next call deletes the segments that are
        left.
        """
        if offset > self.start_offset:
            assert offset <= self.end_offset, (offset, self.end_offset)
            self._save_start(offset)
        self.drop_below_start()

    def move_start(self, offset: Offset) -> None:
        """Moves the start in memory only: for callers that save the starts of many logs at once, or
        undo a move.
        """
        assert offset <= self.end_offset, (offset, self.end_offset)
        self.start_offset = self._memory.start_offset = offset

    def drop_below_start(self) -> None:
        """Deletes whole segments below the start; the start must be on disk already."""
        while self.drop_oldest():
            pass

    def drop_oldest(self) -> bool:
        """The same for at most one segment; returns whether there are more."""
        has_segment = self._segments.starts_below(self.start_offset)
        if has_segment and self.segments[1].base_offset > self.recovery_point:
            # After a crash its epochs cannot be rebuilt from it any more.
            try:
                self._memory.save_epochs(self.end_offset)
            except DiskError as error:
                if not error.full:
                    raise  # else the segment goes, to make room
        return self._drop_oldest()

    def advance_by_name(self, offset: Offset) -> bool:
        """Drops the oldest segment if all of it is below `offset`; returns whether there are more.

        It only renames, which is possible on a full disk: a log begins with its first segment at
        the earliest. The names are synced before the next segment is dropped, or a power loss could
        leave a hole.
        """
        if self._segments.starts_below(offset):
            self.move_start(max(self.start_offset, self.segments[1].base_offset))
            self._drop_oldest()
            self._durability.sync_names()
        return self._segments.starts_below(offset)

    def prepare_cut(self, offset: Offset) -> Cut:
        """For `truncate_to`, of a caller that has others take turns between its steps."""
        return Cut(self._memory, self.segments, offset=offset)

    def truncate_to(self, offset: Offset, *, cut: Cut | None = None) -> None:
        """Cuts off every batch that reaches `offset` or beyond, as a whole.

        CorruptLog, DiskError of a full disk: nothing has changed.
        """
        if offset >= self.end_offset:
            # An epoch under which nothing was written here is in conflict with the leader's epochs.
            self.epochs.truncate_end(self.end_offset)
            return
        new_end = offset
        if offset > self.start_offset:
            # The cut takes whole batches, so the log may end below the offset that was asked for.
            new_end = self.segments[slot_of(self.segments, Offset(offset - 1))].end_below(offset)
        if new_end < self.start_offset:
            # Nothing stays. Records below the start are in the files still, and must not come back.
            self._drop_all(new_end, known_until=new_end)
            return
        if cut is None or cut.offset != offset:
            cut = self.prepare_cut(offset)
        while not cut.is_valid:
            cut.step()
        if offset == self.start_offset:
            # Nothing stays but the producers: one of them may repeat a batch that was deleted.
            self._drop_all(offset, known_until=offset, kept=cut.producers)
            return
        self._prepare_cut(new_end)
        self._memory.cut_saved_epochs(new_end)
        try:
            cut_off(
                self._segments,
                self._memory,
                self._durability,
                cut=cut,
                end_offset=self.end_offset,
                new_end_offset=new_end,
            )
        except DiskError as error:
            raise beyond_return(error) from error
        self.end_offset = new_end
        self.producers.expire(self._now_ms)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drops everything: the log is empty and begins at `offset`, and nothing is known of what
        was below it. DiskError as above.
        """
        self._drop_all(offset, known_until=FIRST_OFFSET)

    def note_watermark(self, offset: Offset) -> None:
        """Tells what to store as the high watermark; the next save of the checkpoints does it."""
        assert offset <= self.end_offset, (offset, self.end_offset)
        self._durability.note_watermark(offset)

    def expire_producers(self, now_ms: int) -> None:
        self.producers.expire(now_ms)

    # Making it last

    @property
    def wants_sync(self) -> bool:
        """Whether a sealed segment is not synced yet: after a crash it would be scanned."""
        unsynced = self._durability.unsynced
        return len(unsynced) > 0 and self._segments.active.base_offset > self.recovery_point

    def unsynced_files(self) -> list[File]:
        """What to sync so that everything up to the present `end_offset` is durable.

        Note the end offset, pass the files to `Disk.sync` in the same step, and call `mark_synced`
        with that offset when it is done; one sync per log at a time.
        """
        return self._durability.begin_sync(self._segments.active, end_offset=self.end_offset)

    def give_up_sync(self) -> None:
        """For want of room: what `unsynced_files` returned is asked for again."""
        self._durability.unsynced.let_go()

    def mark_synced(self, offset: Offset) -> None:
        """The files that `unsynced_files` returned when the log ended at `offset` are synced."""
        offset = self._durability.unsynced.finish(offset)
        if offset > self.recovery_point:
            self._memory.save_epochs(self.end_offset)
            self._durability.recovery_point = min(offset, self.end_offset)

    def sync(self) -> None:
        """The same at once, on this thread."""
        for file in self.unsynced_files():
            file.sync()
        self.mark_synced(self.end_offset)

    def close(self) -> None:
        """Writes what the next start needs to skip scanning, and closes the log."""
        if not self.is_closed:
            self._disk.sync_all(self.begin_close())
            self.finish_close()

    def begin_close(self) -> list[str]:
        """The first half of `close`, for many logs at once: writes, and returns what to sync."""
        assert not self.is_closed
        durability = self._durability
        if not self._as_closed:
            save_active(self._segments, self._memory, durability, end_offset=self.end_offset)
        epochs = self._memory.write_epochs(self.end_offset)
        durability.file_written(epochs, end_offset=self.end_offset)
        return durability.unsynced.paths

    def finish_close(self) -> None:
        """The second half: everything named by `begin_close` is on disk."""
        self._durability.unsynced.clear()
        self._as_closed = True
        self._durability.recovery_point = self.end_offset
        self.abandon()

    def retire(self) -> None:
        """Closes the log before its directory is renamed. Readers can continue."""
        for segment in self.segments:
            segment.hold()
        self.abandon()

    def abandon(self) -> None:
        """Closes the files without writing anything, as after a crash."""
        self.is_closed = True
        self._durability.unsynced.let_go()
        for segment in self.segments:
            segment.let_go()

    def check(self) -> None:
        """The module's invariants."""
        self._segments.check()
        assert self._segments.row is self.segments, "one list"
        assert self.start_offset <= self.end_offset, "invariant 1"
        assert self.recovery_point <= self.end_offset, "invariant 1"
        assert self.segments[0].base_offset <= self.start_offset, "invariant 1"
        assert self.segments[-1].base_offset <= self.end_offset, "invariant 1"
        assert self.producers.end_offset == self.end_offset, "invariant 2"
        self.producers.check()
        self.epochs.check()

    def _append_part(self, batches: Sequence[BatchHeader], view: memoryview) -> None:
        """Writes a part of a run that goes into the active segment as a whole."""
        active = self._segments.active
        active.append_run(view, batches, interval_bytes=self.settings.index_interval_bytes)
        # The bytes are in the page cache; from here on nothing can fail.
        self._memory.take_up_run(batches, view, active)
        self.end_offset = batches[-1].next_offset
        self._as_closed = False
        assert self.producers.end_offset == self.end_offset, "invariant 2"

    def _drop_oldest(self) -> bool:
        """Writes nothing, for a full disk: see `drop_oldest`."""
        if self._segments.starts_below(self.start_offset):
            self._durability.segment_gone(self._segments.retire_first())
        self.epochs.truncate_start(self.start_offset)
        first = min(self.start_offset, self.segments[0].base_offset)
        self._durability.unsynced.forget(*self._memory.snapshots.remove_below(first))
        return self._segments.starts_below(self.start_offset)

    def _drop_all(
        self, offset: Offset, *, known_until: Offset, kept: ProducerStates | None = None
    ) -> None:
        """See `truncate_fully_and_start_at`; epochs below `known_until` stay known, and producers
        that are `kept`.
        """
        assert offset >= 0, offset
        self._prepare_cut(offset)
        # A start that moves up is saved first, so that nothing below it comes back. One that moves
        # down is saved when all records are gone, or those that were deleted would be back; and
        # before the log has a segment below the start on disk, which would be passed over.
        moves_up = offset >= self.start_offset
        if moves_up:
            self._save_start(offset)
        if kept is not None:
            # First: after a crash the snapshot tells that the file has the epoch below the offset.
            self._memory.epochs.truncate_start(offset)
            self._memory.save_epochs(offset)
            keep_producers(self._memory, self._durability, kept, offset=offset)
        try:
            remove_all(
                self._segments, self._memory, self._durability, () if kept is None else (offset,)
            )
            if not moves_up:
                self._durability.sync_names()
                self.move_start(offset)
                self._durability.save_start_offset()
            begin_anew(
                self._segments,
                self._memory,
                self._durability,
                offset=offset,
                known_until=known_until,
                now_ms=self._now_ms,
            )
            self.end_offset = offset
            if kept is not None:
                self.producers.restore(kept.by_id, offset)
        except DiskError as error:
            raise beyond_return(error) from error

    def _begin_below_start(self, offset: Offset) -> None:
        """An empty log gets a first segment from `offset` on, for a batch that reaches its start.

        Start and end stay: if nothing is written to the segment, the log is as empty as before.
        """
        assert offset < self.start_offset == self.end_offset, (offset, self.end_offset)
        known = self.producers.copy()
        self._prepare_cut(offset)
        # First, as in `_drop_all`: the snapshot tells that the file has the epoch below the start.
        self._memory.epochs.truncate_start(self.start_offset)
        self._memory.save_epochs(self.end_offset)
        # Producers outlive it, and a crash at any point: recovery looks for them at the start of
        # the log, if it has no batch there, and else at the start of the segment. Both are written
        # while a full disk changes nothing, unless a segment with records begins there: that one
        # needs its own producers until it has gone.
        is_free = all(one.base_offset != offset or one.size_bytes == 0 for one in self.segments)
        keep_producers(self._memory, self._durability, known, offset=self.end_offset)
        known.end_offset = offset
        if is_free:
            keep_producers(self._memory, self._durability, known, offset=offset)
        kept = [self.end_offset, offset] if is_free else [self.end_offset]
        try:
            remove_all(self._segments, self._memory, self._durability, kept)
            if not is_free:
                keep_producers(self._memory, self._durability, known, offset=offset)
            begin_anew(
                self._segments,
                self._memory,
                self._durability,
                offset=offset,
                known_until=self.end_offset,
                now_ms=self._now_ms,
            )
        except DiskError as error:
            raise beyond_return(error) from error
        self.producers.restore(known.by_id, self.end_offset)

    def _roll_before(self, batch: BatchHeader) -> None:
        """The new segment begins where the log ends, so that recovery finds no gap between the two,
        unless the batch is too far from there.
        """
        end_offset = self.end_offset
        is_near = batch.last_offset - end_offset <= RELATIVE_OFFSET_MAX
        is_free = end_offset > self._segments.active.base_offset
        self._roll(end_offset if is_near and is_free else batch.base_offset)

    def _roll(self, base_offset: Offset) -> None:
        roll(
            self._segments,
            self._memory,
            self._durability,
            base_offset=base_offset,
            end_offset=self.end_offset,
            now_ms=self._now_ms,
        )
        self._as_closed = False

    def _save_start(self, offset: Offset) -> None:
        """DiskError: the start has not moved."""
        before = self.start_offset
        self.start_offset = self._memory.start_offset = offset
        try:
            self._durability.save_start_offset()
        except DiskError:
            self.start_offset = self._memory.start_offset = before
            raise

    def _prepare_cut(self, offset: Offset) -> None:
        """Call it before records at or above `offset` are removed."""
        self.swaps.drop()
        self._as_closed = False
        self._durability.lower(offset, self._segments.active)
        self._durability.lower_watermark(offset)
        if self.cleaned_offset is not None and offset < self.cleaned_offset:
            self.cleaned_offset = offset
            self._durability.save_cleaned_offset()

    def _settle(self, *, fresh: bool) -> None:
        """The last step of opening: nothing remembers what the log does not hold."""
        start_offset = self.start_offset
        if self.end_offset < start_offset:
            kept = self._memory.producers_at(start_offset)
            known_until = FIRST_OFFSET
            if kept is not None:
                # The log had reached its start, so the file may know the epoch below it.
                known_until = start_offset
                self._memory.recall_epoch_below(start_offset)
            self._drop_all(start_offset, known_until=known_until, kept=kept)
        self._memory.settle(self.segments, end_offset=self.end_offset)
        self.producers.expire(self._now_ms)
        if self.recovery.clean and self.recovery.segments_scanned == 0:
            self._durability.recovery_point = self.end_offset
            # Without a snapshot of the producers the next start takes it that there are none.
            known = not self.producers.by_id or self._memory.snapshots.is_sound(self.end_offset)
            self._as_closed = known and not fresh
        else:
            for segment in self.segments[first_unsynced(self.segments, self.recovery_point) :]:
                self._durability.segment_saved(segment, end_offset=self.end_offset)
        self._durability.unsynced.directory = not self._as_closed
        self.check()

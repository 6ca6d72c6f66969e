"""The segments of a log, in order; a new one begins when the last is full or too old.

Invariants:
 1. They are in order of base offset; the last one is active and the only one written to.
 2. Batches within `limits` go into the active segment; others are checked by `must_roll`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from penstock.log.aborted_index import AbortedTransaction, collect_aborted
from penstock.log.creation import new_segment
from penstock.log.loaded_indexes import Indexes, LoadedIndexes
from penstock.log.reading import LogSlice
from penstock.log.removals import Removals
from penstock.log.rolling import RollLimits, must_roll, roll_limits
from penstock.log.segment import Segment
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchHeader, BatchView
from penstock.world.ports import Disk


class Segments:
    """See the module's invariants. `row` is always the same list: others refer to it."""

    __slots__ = (
        "_directory",
        "_disk",
        "_loaded",
        "_removals",
        "_settings",
        "active",
        "limits",
        "row",
    )

    def __init__(
        self,
        row: list[Segment],
        *,
        disk: Disk,
        directory: str,
        settings: TopicSettings,
        loaded: LoadedIndexes,
        removals: Removals,
    ) -> None:
        self.row = row
        self.active: Segment = row[-1]
        self.limits: RollLimits = roll_limits(self.active, settings)
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._loaded = loaded
        self._removals = removals

    # Queries

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.row)

    def starts_below(self, offset: Offset) -> bool:
        """Whether the whole oldest segment is below `offset`, and it is not the only one."""
        return len(self.row) > 1 and self.row[1].base_offset <= offset

    def must_roll(self, batches: Sequence[BatchHeader], *, now_ms: int) -> bool:
        """Whether these batches, which may be beyond the limits, need a new segment."""
        if must_roll(self.active, batches, settings=self._settings, now_ms=now_ms):
            return True
        self.limits = roll_limits(self.active, self._settings)
        return False

    def batches_from(self, offset: Offset, *, end_offset: Offset) -> Iterator[BatchView]:
        """Every batch that reaches `offset` or beyond and begins below `end_offset`."""
        for segment in self.row[slot_of(self.row, offset) :]:
            if segment.size_bytes == 0:
                continue
            for _, batch in segment.batches(start=segment.position_of(offset)):
                if batch.base_offset >= end_offset:
                    return
                yield batch

    def aborted_within(
        self, *, from_offset: Offset, until_offset: Offset
    ) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that a `read_committed` reader of this range must know.

        By first offset, as in a fetch reply.
        """
        found: list[AbortedTransaction] = []
        for slot in range(slot_of(self.row, from_offset), len(self.row)):
            if collect_aborted(
                found,
                self.row[slot].aborted_transactions,
                from_offset=from_offset,
                until_offset=until_offset,
            ):
                break
        return tuple(sorted(found, key=_first_offset))

    def end_of(self, found: LogSlice, *, end_offset: Offset) -> Offset:
        """An offset beyond all batches of a slice, and not far beyond."""
        slot = slot_of(self.row, found.segment_base_offset)
        segment = self.row[slot]
        end = found.position + found.byte_count
        if end < segment.size_bytes:
            beyond = segment.indexes.offset.offset_beyond(end)
            if beyond is not None:
                return beyond
        return end_offset if segment is self.active else self.row[slot + 1].base_offset

    def check(self) -> None:
        for earlier, later in zip(self.row, self.row[1:], strict=False):
            assert earlier.base_offset < later.base_offset, "invariant 1"
            assert not earlier.is_active, "invariant 1"
        assert self.row[-1] is self.active, "invariant 1"
        assert self.active.is_active, "invariant 1"

    # Commands

    def reconfigure(self, settings: TopicSettings) -> None:
        self._settings = settings
        self.limits = roll_limits(self.active, settings)

    def begin(self, base_offset: Offset, *, now_ms: int) -> None:
        """Seals the active segment, whose indexes are saved, and continues in a new one.

        DiskError: nothing has changed.
        """
        new = new_segment(self._disk, self._directory, base_offset, now_ms, self._loaded)
        self.active.seal()
        self._take_up(new)

    def begin_anew(self, base_offset: Offset, *, now_ms: int) -> None:
        """The same when no segment is left."""
        assert not self.row
        self._take_up(new_segment(self._disk, self._directory, base_offset, now_ms, self._loaded))

    def retire_first(self) -> Segment:
        """Deletes the oldest segment; its files are removed after `file.delete.delay.ms`."""
        segment = self.row[0]
        self._retire(segment)
        del self.row[0]
        return segment

    def retire_last(self) -> Segment:
        """The same at the end; `reactivate` or `begin_anew` follows."""
        segment = self.row[-1]
        self._retire(segment)
        self.row.pop()
        return segment

    def reactivate(self, indexes: Indexes) -> None:
        """Continues writing in what is now the last segment, which has these indexes."""
        self.active = self.row[-1]
        if not self.active.is_active:
            self.active.activate(indexes)

    def truncate_active(self, offset: Offset) -> None:
        """Removes every batch of the active segment that reaches `offset` or beyond."""
        self.active.truncate(offset)
        self.limits = roll_limits(self.active, self._settings)

    def _take_up(self, new: Segment) -> None:
        new.activate()
        self.row.append(new)
        self.active = new
        self.limits = roll_limits(new, self._settings)

    def _retire(self, segment: Segment) -> None:
        retired = segment.retire_files()
        self._removals.add(*retired, delay_ms=self._settings.file_delete_delay_ms)


def slot_of(row: Sequence[Segment], offset: Offset) -> int:
    """The index of the segment that holds `offset`; 0 when it is before all of them."""
    return max(0, bisect_right(row, offset, key=_base_offset) - 1)


def first_unsynced(row: Sequence[Segment], recovery_point: Offset) -> int:
    """The index of the first segment that may have files which are not synced.

    One that ends at the recovery point may have been sealed after the sync: its indexes are newer.
    """
    return slot_of(row, Offset(recovery_point - 1))


def _first_offset(transaction: AbortedTransaction) -> Offset:
    return transaction.first_offset


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset

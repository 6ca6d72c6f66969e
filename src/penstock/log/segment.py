"""One segment: a file of batches, and its indexes.

The segment being written (the active one) keeps its indexes in memory; they are written when it is
sealed or closed. That is safe because after an earlier crash recovery scans the segment anyway, and
it saves two small writes per append. The indexes of sealed segments are read when needed and cached
up to a bound (`log/loaded_indexes`).

Invariants:
 1. `size_bytes` is the end of the last whole batch; bytes beyond it in the file are never shown.
 2. Batches follow each other without gaps in bytes; offsets increase.
 3. No offset is more than 2^31 - 1 above the base offset, no position beyond 2^31 - 1.
 4. Once sealed, the time index ends with the largest timestamp of the segment, and the offset index
    with its last batch (unless that is the only one): if a power loss has removed the end of the
    log but not the indexes, recovery detects it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.log import layout
from penstock.log.aborted_index import AbortedTransaction, decode_aborted, encode_aborted
from penstock.log.errors import CorruptIndex, CorruptLog
from penstock.log.loaded_indexes import Indexes, LoadedIndexes
from penstock.log.offset_index import OffsetIndex
from penstock.log.scan import HEADER_READ_BYTES, find, find_at, headers, whole_batches
from penstock.log.segment_files import SegmentFiles
from penstock.log.time_index import TimeIndex
from penstock.model.limit import KIB
from penstock.model.offset import Offset
from penstock.records.batch import BatchHeader, BatchView
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.layout import NO_TIMESTAMP
from penstock.records.record import Record
from penstock.world.ports import Disk, File

INTERVAL_BYTES: Final = 4 * KIB
# Between entries of the index: more than one read covers.
LARGE_STEP_BYTES: Final = HEADER_READ_BYTES
RECENT_BATCHES_MAX: Final = 64  # whose position a reader at the tail finds without a search


class Segment:
    __slots__ = (
        "_aborted",
        "_active",
        "_bytes_since_entry",
        "_files",
        "_first_timestamp_ms",
        "_interval_bytes",
        "_largest",
        "_last_offset",
        "_last_position",
        "_loaded",
        "_recent",
        "_saved",
        "base_offset",
        "created_ms",
        "size_bytes",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        size_bytes: int,
        created_ms: int,
        loaded: LoadedIndexes,
        ending: str = "",
        interval_bytes: int = INTERVAL_BYTES,
        is_new: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self._aborted: list[AbortedTransaction] | None = None  # None: not read yet
        self._files = SegmentFiles(
            disk=disk, directory=directory, base_offset=base_offset, ending=ending
        )
        self._loaded = loaded
        self._active: Indexes | None = None
        self._largest: tuple[int, Offset] | None = None  # timestamp, last offset of its batch
        self._first_timestamp_ms: int | None = None
        self._bytes_since_entry = 0
        self._interval_bytes = interval_bytes  # between the entries of an index built anew
        self._recent: dict[Offset, int] = {}
        self._saved = not is_new  # whether there may be indexes on disk
        self._last_offset = base_offset  # of the last batch that was noted
        self._last_position = 0  # and where it begins; 0: no entry is needed

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size_bytes={self.size_bytes})"

    # What it holds

    @property
    def is_active(self) -> bool:
        return self._active is not None

    @property
    def file(self) -> File:
        """The .log file; the disk closes and reopens its descriptor as it sees fit."""
        return self._files.log

    @property
    def indexes(self) -> Indexes:
        return self._active or self._loaded.of(self)

    @property
    def largest_timestamp(self) -> tuple[int, Offset]:
        """The largest timestamp and the last offset of its batch; (-1, base offset) if none."""
        if self._largest is None:
            self._largest = self.indexes.time.last()
        return self._largest

    @property
    def latest_ms(self) -> int:
        """The largest timestamp, or, if there is none, when the file was last written to."""
        largest_ms = self.largest_timestamp[0]
        return largest_ms if largest_ms >= 0 else self._files.log_modified_ms

    @property
    def first_timestamp_ms(self) -> int:
        """Of the first batch, -1 if it has none: the age of a segment is counted from it."""
        if self._first_timestamp_ms is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            _, first = next(self.headers_from(0))
            self._first_timestamp_ms = first.max_timestamp
        return self._first_timestamp_ms

    @property
    def has_saved_indexes(self) -> bool:
        """Whether there may be indexes on disk, saved by a stop or when the segment was sealed."""
        return self._saved

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that the segment may have."""
        return self._files.all_paths

    def path(self, suffix: str) -> str:
        return self._files.path(suffix)

    def find(self, offset: Offset) -> tuple[int, int] | None:
        """Position and size of the first batch that reaches `offset` or beyond; None if none."""
        index = self.indexes.offset
        start = index.position_before(offset)
        likely = index.position_at(offset)
        try:
            if likely is not None and likely - start > LARGE_STEP_BYTES:
                # Every batch has an entry where batches are large: no need to pass over one.
                found = find_at(self.file, offset, position=likely, end=self.size_bytes)
                if found is not None:
                    return found
            return find(self.file, offset, start=start, end=self.size_bytes)
        except CorruptBatch as error:
            raise self._corrupt(error) from error

    def locate(self, offset: Offset) -> tuple[int, int | None] | None:
        """What `find` returns; the size is None where it was not needed."""
        recent = self._recent.get(offset)
        return self.find(offset) if recent is None else (recent, None)

    def batch_bytes_at(self, position: int) -> int:
        """The size of the batch that begins at `position`."""
        _, header = next(self.headers_from(position))
        return header.size_bytes

    def batch_end_before(self, limit: int, *, start: int) -> int:
        """Where the last batch ends that ends at `limit` or before; `start` is where one begins."""
        at = max(start, self.indexes.offset.last_position_before(limit))
        for position, header in self.headers_from(at):
            if position + header.size_bytes > limit:
                return position
        return self.size_bytes

    def position_of(self, offset: Offset) -> int:
        """Where the first batch begins that reaches `offset`; the end when there is none."""
        recent = self._recent.get(offset)
        if recent is not None:
            return recent
        found = self.find(offset)
        return self.size_bytes if found is None else found[0]

    def end_offset(self) -> Offset:
        """The offset after the last batch, read from the file; the base offset when it is empty."""
        end_offset = self.base_offset
        for _, header in self.headers_from(self.indexes.offset.last_position()):
            end_offset = header.next_offset
        return end_offset

    def end_below(self, offset: Offset) -> Offset:
        """Where the segment ends without the batches that reach `offset` or beyond."""
        end_offset = self.base_offset
        start = self.indexes.offset.position_before(Offset(offset - 1))
        for _, header in self.headers_from(start):
            if header.last_offset >= offset:
                break
            end_offset = header.next_offset
        return end_offset

    def batches(self, *, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchView]]:
        """Whole batches from the position `start` on."""
        end = self.size_bytes if end is None else end
        try:
            yield from whole_batches(self.file, start=start, end=end)
        except CorruptBatch as error:
            raise self._corrupt(error) from error

    def batch_at(self, position: int, size_bytes: int) -> BatchView:
        """The whole batch that begins at `position`."""
        _, batch = next(self.batches(start=position, end=position + size_bytes))
        return batch

    def headers(self) -> Iterator[BatchHeader]:
        for _, header in self.headers_from(0):
            yield header

    def headers_from(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """The headers of all batches from the position `start` on, where one begins."""
        try:
            yield from headers(self.file, start=start, end=self.size_bytes)
        except CorruptBatch as error:
            raise self._corrupt(error) from error

    def records(self, batch: BatchView, position: int) -> Iterator[Record]:
        """The records of a batch that stands at `position`."""
        try:
            yield from records_of(batch)
        except CorruptBatch as error:
            raise CorruptLog(
                self.path(layout.LOG), position=position, reason=error.reason
            ) from error

    @property
    def aborted_transactions(self) -> list[AbortedTransaction]:
        if self._aborted is None:
            data = self._files.read(layout.ABORTED_INDEX)
            self._aborted = decode_aborted(data, base_offset=self.base_offset)
        return self._aborted

    # Writing

    def activate(self, indexes: Indexes | None = None) -> None:
        """Begins writing: from here on the indexes are in memory."""
        self._active = indexes or self.indexes
        self._loaded.forget(self)

    def append(self, batches: Sequence[BatchView], *, interval_bytes: int) -> None:
        """Writes the batches with one call; DiskError: nothing has changed."""
        self._write([batch.view for batch in batches], batches, interval_bytes)

    def append_run(
        self, view: memoryview, batches: Sequence[BatchHeader], *, interval_bytes: int
    ) -> None:
        """The same for batches that follow each other in memory."""
        self._write([view], batches, interval_bytes)

    def note(self, batch: BatchHeader, position: int, *, interval_bytes: int) -> None:
        """Adds the batch at `position` to the indexes."""
        active = self._active
        assert active is not None, "a sealed segment is not written to"
        last_offset = batch.last_offset
        if position == 0:
            self._first_timestamp_ms = batch.max_timestamp
        largest = self._largest or self.largest_timestamp
        if batch.max_timestamp > largest[0]:
            self._largest = largest = batch.max_timestamp, last_offset
        if self._bytes_since_entry > interval_bytes:
            active.offset.append(last_offset, position)
            active.time.append(*largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.size_bytes
        self._last_offset, self._last_position = last_offset, position
        recent = self._recent
        recent[batch.base_offset] = position
        if len(recent) > RECENT_BATCHES_MAX:
            # The older half at once: to take them out one by one costs a tenth of a small produce.
            self._recent = dict(list(recent.items())[RECENT_BATCHES_MAX // 2 :])

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        """Adds a transaction whose abort marker is in this segment."""
        self.aborted_transactions.append(transaction)

    def save_indexes(self) -> None:
        """Writes the indexes from memory, with the last entries of invariant 4."""
        assert self._active is not None
        self._saved = True
        if self.size_bytes > 0:
            self._active.time.append(*self.largest_timestamp)
        if self._last_position > self._active.offset.last_position():
            self._active.offset.append(self._last_offset, self._last_position)
            self._bytes_since_entry = self.size_bytes - self._last_position
        self._files.overwrite(layout.OFFSET_INDEX, self._active.offset.encode())
        self._files.overwrite(layout.TIME_INDEX, self._active.time.encode())
        if self._aborted or self._files.exists(layout.ABORTED_INDEX):
            self._files.overwrite(layout.ABORTED_INDEX, encode_aborted(self.aborted_transactions))

    def seal(self) -> None:
        """Ends writing; call `save_indexes` before. It changes only memory, so it cannot fail."""
        assert self._active is not None
        self._active = None
        self._recent.clear()

    def truncate(self, offset: Offset) -> int:
        """Removes every batch that reaches `offset` or beyond; returns the number of bytes."""
        assert self._active is not None, "only the active segment is cut"
        position = self.position_of(offset)
        cut = self.size_bytes - position
        self.cut_file(position)
        self._active.offset.truncate(offset)
        self._active.time.truncate(offset)
        self._bytes_since_entry = position - self._active.offset.last_position()
        self._recent.clear()
        self._last_position = 0
        if self.size_bytes == 0:
            self._first_timestamp_ms = None
        self._largest = self._largest_after_cut()
        self._aborted = [one for one in self.aborted_transactions if one.last_offset < offset]
        return cut

    def cut_file(self, size_bytes: int) -> None:
        """Truncates the file after its last valid batch."""
        if self.file.size != size_bytes:
            self.file.truncate(size_bytes)
        self.size_bytes = size_bytes

    # Files

    def create_files(self) -> None:
        """Makes the files of a new segment, empty."""
        self._files.create()

    def remove_files(self) -> None:
        """Deletes the segment at once."""
        self._files.remove()
        self._loaded.forget(self)

    def retire_files(self) -> list[str]:
        """Deletes the segment by renaming its files; returns their new paths. Readers can continue.

        DiskError: the segment is unchanged.
        """
        paths = self._files.retire()
        self._loaded.forget(self)
        return paths

    def change_ending(self, ending: str) -> None:
        """Renames the files for a step of compaction."""
        self._files.change_ending(ending)
        self._loaded.forget(self)

    def remove_saved_indexes(self) -> tuple[str, ...]:
        """Call it before a truncation, which makes saved indexes invalid; returns their paths."""
        self._saved = False
        return self._files.remove_indexes()

    def sync_names(self) -> None:
        """Syncs the directory: what was renamed or removed stays so."""
        self._files.sync_names()

    def hold(self) -> None:
        """Call it before the .log file is renamed: readers can continue."""
        self._files.hold()

    def let_go(self) -> None:
        """Releases the file. It is not closed: a reader may still be sending from it."""
        self._files.let_go()
        self._loaded.forget(self)

    # Indexes

    def load_indexes(self) -> Indexes:
        """The indexes of a sealed segment from disk, or rebuilt when those are invalid."""
        try:
            indexes = self.read_indexes()
        except CorruptIndex:
            return self.rebuild_indexes()
        # A sealed time index has one entry at least; an unsynced one may have come back empty.
        if self.size_bytes > 0 and len(indexes.time) == 0:
            return self.rebuild_indexes()
        return indexes

    def read_indexes(self) -> Indexes:
        """The indexes from disk; CorruptIndex when they are missing or invalid."""
        return self._files.read_indexes(log_bytes=self.size_bytes)

    def rebuild_indexes(self) -> Indexes:
        """Rebuilds the indexes from all headers; writes those of a sealed segment."""
        was_active, aborted = self._active, self.aborted_transactions
        self._loaded.forget(self)
        self.begin_indexes()
        self._aborted = aborted
        for position, header in self.headers_from(0):
            self.note(header, position, interval_bytes=self._interval_bytes)
        built = self._active
        assert built is not None
        if was_active is None:
            self.save_indexes()
            self.seal()
        return built

    def begin_indexes(self) -> None:
        """Empty indexes, to be filled by `note`."""
        self._active = Indexes(
            offset=OffsetIndex(self.base_offset), time=TimeIndex(self.base_offset)
        )
        self._aborted = []
        self._largest = (NO_TIMESTAMP, self.base_offset)
        self._bytes_since_entry = 0
        self._recent.clear()
        self._last_position = 0

    def _write(
        self, buffers: Sequence[memoryview], batches: Sequence[BatchHeader], interval_bytes: int
    ) -> None:
        position = self._files.log.append(buffers)
        assert position == self.size_bytes, (self, position)
        for batch in batches:
            self.note(batch, position, interval_bytes=interval_bytes)
            position += batch.size_bytes
        self.size_bytes = position

    def _largest_after_cut(self) -> tuple[int, Offset]:
        assert self._active is not None
        largest = self._active.time.last()
        start = self._active.offset.position_before(largest[1])
        for _, header in self.headers_from(start):
            if header.max_timestamp > largest[0]:
                largest = header.max_timestamp, header.last_offset
        return largest

    def _corrupt(self, error: CorruptBatch) -> CorruptLog:
        return CorruptLog(self.path(layout.LOG), position=error.position or 0, reason=error.reason)

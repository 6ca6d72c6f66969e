"""One pass of compaction over one log, from files to files; the log itself is not changed.

    map the keys of the dirty part       key -> latest offset, in bounded memory
    for each group of segments           rewrite them into <base>.log.cleaned, with indexes; sync
        yield Cleaned                    whoever owns the log renames .cleaned to .swap
        sync the directory
        yield Step.SWAP_LASTS            it puts the new segment in the place of the old ones
        sync the directory, remove the old files
        yield Step.SOURCES_GONE          it gives the new files their names
    yield Finished

See `swap` for the owner's side, and for the files after a crash at any point. When the memory is
full before the dirty part ends, the pass covers what fitted, and another pass continues from there.
Between any two steps a pass yields a Rest, which keeps the limit of bytes per second.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from enum import Enum

from penstock.log import layout
from penstock.log.compaction.batch_filter import BatchFilter, bare
from penstock.log.compaction.plan import CleaningPass, Source, groups_of
from penstock.log.compaction.transactions import Transactions
from penstock.log.errors import CorruptLog
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.scan import whole_batches
from penstock.log.segment import Segment
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECOMPRESSED_BYTES_MAX, MIB
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import payload_of, records_of
from penstock.records.keys import KeyOffsets
from penstock.records.layout import MAGIC_V2
from penstock.records.write import filter_records
from penstock.world.ports import Disk, Rest

STEP_BYTES = 1 * MIB  # read or written between two rests
SYNC_BYTES = 32 * MIB  # so that the disk is never given a whole segment at once
KEY_BYTES = 24  # of one key in memory
FIRST_MEMORY_BYTES = 8 * MIB
MEMORY_GROWTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """A group of segments has been rewritten; the `.cleaned` files are complete and synced."""

    sources: tuple[Source, ...]
    size_bytes: int

    @property
    def base_offset(self) -> Offset:
        return self.sources[0].base_offset


class Step(Enum):
    SWAP_LASTS = "the swap files survive a power loss"
    SOURCES_GONE = "the old files do not come back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The log is compacted up to `end_offset`."""

    end_offset: Offset
    keys: int
    bytes_before: int
    bytes_after: int


PassItem = Cleaned | Step | Finished
Steps = Generator[PassItem | Rest, None, None]


def clean_log(disk: Disk, wanted: CleaningPass) -> Steps:
    """Runs a pass; see the module. After CorruptLog or DiskError the log is unchanged."""
    _remove_outputs(disk, wanted)
    keys, end_offset = yield from _map_keys(disk, wanted)
    sources = [source for source in wanted.sources if source.base_offset < end_offset]
    batch_filter = BatchFilter(wanted, keys)
    bytes_after = 0
    for group in groups_of(sources, _index_bytes(disk, wanted, sources), wanted.settings):
        size_bytes = yield from _clean_group(disk, wanted, group, batch_filter)
        bytes_after += size_bytes
        yield Cleaned(sources=tuple(group), size_bytes=size_bytes)
        disk.sync_directory(wanted.directory)
        yield Step.SWAP_LASTS
        disk.sync_directory(wanted.directory)
        for source in group:
            for suffix in layout.SEGMENT_SUFFIXES:
                disk.remove(_path(wanted, source, suffix) + layout.DELETED)
        yield Step.SOURCES_GONE
    yield Finished(
        end_offset=end_offset,
        keys=keys.count,
        bytes_before=sum(source.size_bytes for source in sources),
        bytes_after=bytes_after,
    )


def _map_keys(disk: Disk, wanted: CleaningPass) -> Generator[Rest, None, tuple[KeyOffsets, Offset]]:
    """The latest offset of each key in the dirty part, and how far that reaches.

    The memory begins small and is given up for a larger one when it is full: most logs have few
    keys, and reading a part of one twice costs less than touching all of the memory allowed.
    """
    limits = wanted.limits
    offsets = wanted.until_offset - wanted.first_dirty_offset
    needed_bytes = int((offsets + 1) * KEY_BYTES / limits.load_factor) + KEY_BYTES
    memory_bytes_max = min(limits.memory_bytes, needed_bytes)
    memory_bytes = min(memory_bytes_max, FIRST_MEMORY_BYTES)
    while True:
        keys = KeyOffsets(memory_bytes=memory_bytes, load_factor=limits.load_factor)
        if (yield from _note_all(disk, wanted, keys)):
            return keys, wanted.until_offset
        if memory_bytes == memory_bytes_max:
            assert keys.end_offset > wanted.first_dirty_offset, "a pass without progress"
            return keys, Offset(keys.end_offset)
        memory_bytes = min(memory_bytes_max, memory_bytes * MEMORY_GROWTH)


def _note_all(disk: Disk, wanted: CleaningPass, keys: KeyOffsets) -> Generator[Rest, None, bool]:
    """Notes the keys of the dirty part; False when the memory was full before its end."""
    dirty = [one for one in wanted.sources if one.end_offset > wanted.first_dirty_offset]
    if not dirty:
        return True
    transactions = Transactions(wanted.aborted, from_offset=dirty[0].base_offset)
    pace = _Pace(wanted)
    for source in dirty:
        for batch in _batches(disk, wanted, source):
            if pace.is_due(batch.size_bytes):
                yield pace.rest()
            with _damage_reported(wanted, source):
                if batch.is_control:
                    transactions.pass_control(batch)
                    continue
                if transactions.pass_data(batch) or batch.last_offset < wanted.first_dirty_offset:
                    continue
                if not _note(batch, keys, from_offset=wanted.first_dirty_offset):
                    return False
    return True


def _note(batch: BatchView, keys: KeyOffsets, *, from_offset: Offset) -> bool:
    payload = payload_of(batch, bytes_max=DECOMPRESSED_BYTES_MAX)
    record_count = batch.record_count
    if batch.base_offset < from_offset:
        # The pass before was full in the middle of this batch: its first records are not dirty.
        keep = bytes(record.offset >= from_offset for record in records_of(batch))
        timestamp = batch.base_timestamp
        payload, record_count, _ = filter_records(payload, record_count, keep, timestamp, timestamp)
    return keys.note(payload, record_count, batch.base_offset) == record_count


def _clean_group(
    disk: Disk, wanted: CleaningPass, group: Sequence[Source], batch_filter: BatchFilter
) -> Generator[Rest, None, int]:
    """Writes what stays of a group into `.cleaned` files, and syncs them; its size."""
    output = Segment(
        disk=disk,
        directory=wanted.directory,
        base_offset=group[0].base_offset,
        size_bytes=0,
        created_ms=wanted.now_ms,
        loaded=LoadedIndexes(),
        ending=layout.CLEANED,
    )
    whole = False
    try:
        output.create_files()
        output.begin_indexes()
        last: BatchView | None = None
        for source in group:
            last = (yield from _clean_into(output, disk, wanted, source, batch_filter)) or last
        if last is not None and output.end_offset() != last.next_offset:
            # A segment ends where the next one begins: recovery takes a gap there for a loss.
            output.append([bare(last)], interval_bytes=wanted.settings.index_interval_bytes)
        output.save_indexes()
        output.seal()
        output.file.sync()
        for path in output.paths:
            if disk.exists(path):
                _sync(disk, path)
        whole = True
        return output.size_bytes
    finally:
        if not whole:
            output.remove_files()


def _clean_into(
    output: Segment, disk: Disk, wanted: CleaningPass, source: Source, batch_filter: BatchFilter
) -> Generator[Rest, None, BatchView | None]:
    """Adds what stays of one source; its last batch, as it was."""
    interval_bytes = wanted.settings.index_interval_bytes
    pace = _Pace(wanted)
    kept: list[BatchView] = []
    batch: BatchView | None = None
    for batch in _batches(disk, wanted, source):
        with _damage_reported(wanted, source):
            left = batch_filter.pass_through(batch)
        if left is not None:
            kept.append(left)
        if pace.is_due(batch.size_bytes + (0 if left is None else left.size_bytes)):
            if kept:
                output.append(kept, interval_bytes=interval_bytes)
                kept = []
            yield pace.rest()
            if pace.sync_is_due():
                output.file.sync()
    if kept:
        output.append(kept, interval_bytes=interval_bytes)
    for transaction in batch_filter.aborted:
        output.note_aborted(transaction)
    batch_filter.aborted.clear()
    return batch


def _remove_outputs(disk: Disk, wanted: CleaningPass) -> None:
    """Removes what an earlier pass has written and the log has not taken up."""
    for name in disk.names(wanted.directory):
        if name.endswith(layout.CLEANED):
            disk.remove(f"{wanted.directory}/{name}")


class _Pace:
    """Counts bytes, and tells when it is time for a rest."""

    def __init__(self, wanted: CleaningPass) -> None:
        self._bytes_per_second = wanted.limits.bytes_per_second
        self._step_bytes = 0
        self._unsynced_bytes = 0

    def is_due(self, byte_count: int) -> bool:
        self._step_bytes += byte_count
        return self._step_bytes >= STEP_BYTES

    def rest(self) -> Rest:
        step_bytes, self._step_bytes = self._step_bytes, 0
        self._unsynced_bytes += step_bytes
        return Rest(step_bytes / self._bytes_per_second)

    def sync_is_due(self) -> bool:
        if self._unsynced_bytes < SYNC_BYTES:
            return False
        self._unsynced_bytes = 0
        return True


def _batches(disk: Disk, wanted: CleaningPass, source: Source) -> Generator[BatchView, None, None]:
    """Every batch of a source; damage must not be given a checksum that matches."""
    file = disk.open(_path(wanted, source, layout.LOG), writable=False)
    try:
        with _damage_reported(wanted, source):
            for position, batch in whole_batches(file, start=0, end=source.size_bytes):
                if batch.magic != MAGIC_V2:
                    reason = f"a batch of format {batch.magic}, which is not compacted"
                    raise CorruptBatch(reason, position=position)
                if not batch.checksum_matches():
                    raise CorruptBatch("the checksum does not match", position=position)
                yield batch
    finally:
        file.close()


@contextmanager
def _damage_reported(wanted: CleaningPass, source: Source) -> Generator[None, None, None]:
    try:
        yield
    except CorruptBatch as error:
        path = _path(wanted, source, layout.LOG)
        raise CorruptLog(path, position=error.position or 0, reason=error.reason) from error


def _index_bytes(disk: Disk, wanted: CleaningPass, sources: Sequence[Source]) -> dict[Offset, int]:
    """The size of the larger index of each source."""
    found: dict[Offset, int] = {}
    for source in sources:
        paths = [
            _path(wanted, source, suffix) for suffix in (layout.OFFSET_INDEX, layout.TIME_INDEX)
        ]
        found[source.base_offset] = max(
            disk.size(path) if disk.exists(path) else 0 for path in paths
        )
    return found


def _path(wanted: CleaningPass, source: Source, suffix: str) -> str:
    return layout.segment_path(wanted.directory, source.base_offset, suffix)


def _sync(disk: Disk, path: str) -> None:
    file = disk.open(path)
    file.sync()
    file.close()

"""Loads the segments of a log, and truncates what a crash left torn.

After a clean stop nothing is scanned: the indexes lead to the last batch. Otherwise the segments
from the recovery point on are scanned, and the one that ends there, because its index of aborted
transactions may have been lost: every batch is checked, and the log ends before the first one that
is torn, corrupt or out of order. What comes after it is removed, the last segment first, so that a
crash during recovery leaves a log without holes. A crash does not tear anything below the recovery
point, nor, if the machine has run since, below the high watermark: damage there is damage of the
disk, records that were acked may follow it, and the log is left unchanged (CorruptLog). If the
machine has run since, a crash does not tear more than the last write either: a batch that is whole
and wrong is damage, wherever it stands.

Invariants of the result:
 1. Segments are in order of base offset; each begins at or after the end of the one before it.
 2. The last segment is active, and ends with a whole batch whose checksum matches.
 3. The producers and the epochs reflect exactly the batches up to the end.
 4. No batch below the recovery point or below `committed` has been removed.
"""

import struct
from collections.abc import Callable
from dataclasses import field

from penstock.log import layout
from penstock.log.errors import CorruptIndex, CorruptLog
from penstock.log.loaded_indexes import Indexes, LoadedIndexes
from penstock.log.memory import LogMemory
from penstock.log.scan import headers, whole_batches
from penstock.log.segment import Segment
from penstock.log.segments import first_unsynced
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import MIB
from penstock.model.offset import NO_LEADER_EPOCH, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchHeader, BatchView
from penstock.records.checksum import crc32c
from penstock.records.errors import CorruptBatch, IncompleteBatch
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    HEADER_BYTES,
    INT64,
    UINT32,
)
from penstock.world.ports import Disk

TORN_BYTES_MAX = 128 * MIB  # larger than any batch that was being written when a process ended
ENDS_MAX = 1000  # of a batch of damaged size, that are tried


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """What opening a log had to do."""

    clean: bool
    segments_scanned: int = 0
    segments_dropped: int = 0
    bytes_scanned: int = 0
    bytes_cut: int = 0
    indexes_rebuilt: int = 0
    intact: bool = True  # nothing is gone but an incomplete batch at the very end of a log
    reasons: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Loaded:
    """The parts of a log, as recovery leaves them."""

    segments: list[Segment]
    end_offset: Offset
    report: RecoveryReport


def find_segments(
    disk: Disk, directory: str, *, settings: TopicSettings, now_ms: int, loaded: LoadedIndexes
) -> tuple[list[Segment], list[Offset]]:
    """The segments of a directory after `log/leftovers`, in order, and the offsets of its
    snapshots.
    """
    segments: list[Segment] = []
    snapshots: list[Offset] = []
    for name in disk.names(directory):
        parsed = layout.parse_segment_file(name)
        if parsed is None:
            continue
        base_offset, suffix = parsed
        if suffix == layout.SNAPSHOT:
            snapshots.append(base_offset)
        elif suffix == layout.LOG:
            segments.append(
                Segment(
                    disk=disk,
                    directory=directory,
                    base_offset=base_offset,
                    size_bytes=disk.size(f"{directory}/{name}"),
                    created_ms=now_ms,
                    loaded=loaded,
                    interval_bytes=settings.index_interval_bytes,
                )
            )
    return segments, snapshots


def load(
    segments: list[Segment],
    *,
    clean: bool,
    recovery_point: Offset,
    committed: Offset,
    is_end_torn_at_most: bool,
    cleaned_offset: Offset,
    settings: TopicSettings,
    memory: LogMemory,
    about_to_lose: Callable[[], None],
) -> Loaded:
    """Loads the segments of a log, at least one, so that writing can continue.

    What is below `committed` is known to have been there, and nothing has happened since that could
    have taken it; nor, if the end alone may be torn, anything but the end of the last batch.
    `about_to_lose` is called before anything is removed but an incomplete batch at the very end,
    and when records are gone that were synced.
    """
    assert segments
    report = RecoveryReport(clean=clean)
    suspect = _first_suspect(segments, report)
    if clean and suspect is None:
        end_offset = _clean_end(segments[-1], report)
        if end_offset is not None and end_offset < recovery_point:
            # Synced and gone all the same: nothing brings it back, but it does not go unsaid.
            path = segments[-1].path(layout.LOG)
            report.reasons.append(
                f"{path}: ends at offset {end_offset}, but was synced up to {recovery_point}"
            )
        elif end_offset is not None:
            memory.load(segments, until_offset=end_offset, trust_absence=True)
            return Loaded(segments=segments, end_offset=end_offset, report=report)
    # A clean stop that does not look like one: the last segment alone is in doubt.
    first = len(segments) - 1 if clean else first_unsynced(segments, recovery_point)
    first = first if suspect is None else min(first, suspect)
    base_offset = segments[first].base_offset
    memory.load(segments[:first], until_offset=base_offset, trust_absence=False)
    # The file of epochs may be older than a truncation: what is scanned says which epochs it has.
    memory.epochs.truncate_end(base_offset)
    end_offset = _scan_all(
        segments, first, recovery_point, committed, is_end_torn_at_most, cleaned_offset, settings,
        memory, report, about_to_lose,
    )  # fmt: skip
    if end_offset < committed:
        reason = f"the log ends at offset {end_offset}"
        raise _beyond_repair(segments[-1], segments[-1].size_bytes, reason, committed)
    if end_offset < recovery_point:
        _lose(report, about_to_lose)
    for segment in segments[first:-1]:
        segment.save_indexes()
        segment.seal()
    assert segments[-1].is_active, "invariant 2"
    return Loaded(segments=segments, end_offset=end_offset, report=report)


def _first_suspect(segments: list[Segment], report: RecoveryReport) -> int | None:
    """The first segment whose aborted transactions cannot be read: only a scan finds them again."""
    for slot, segment in enumerate(segments):
        try:
            _ = segment.aborted_transactions
        except CorruptIndex as error:
            report.reasons.append(f"{segment.path(layout.ABORTED_INDEX)}: {error}")
            return slot
    return None


def _clean_end(last: Segment, report: RecoveryReport) -> Offset | None:
    """Where a cleanly closed log ends; None when the last segment does not look like one."""
    try:
        indexes = last.read_indexes()
        end_offset = last.base_offset
        start = indexes.offset.last_position()
        for _, header in headers(last.file, start=start, end=last.size_bytes):
            end_offset = header.next_offset
            if header.max_timestamp > indexes.time.last()[0]:
                raise CorruptIndex("the time index does not end with the largest timestamp")
    except (CorruptIndex, CorruptBatch) as error:
        report.reasons.append(f"{last.path(layout.LOG)}: {error}")
        return None
    last.activate(indexes)
    return end_offset


def _scan_all(
    segments: list[Segment],
    first: int,
    recovery_point: Offset,
    committed: Offset,
    is_end_torn_at_most: bool,
    cleaned_offset: Offset,
    settings: TopicSettings,
    memory: LogMemory,
    report: RecoveryReport,
    about_to_lose: Callable[[], None],
) -> Offset:
    """Scans the segments from `first` on, drops those behind a cut; where the log ends then."""
    # A power loss can take the tail of one segment, or all of it, and leave the next: the log ends
    # there. Our own compaction keeps the last offset of a segment; Apache Kafka's leaves gaps, even
    # segments without a byte. What is compacted is synced first, so a gap up to where the log is
    # known to be compacted is not a loss, nor is one that no segment could have filled, nor one
    # that ends where everything was synced.
    floor = max(recovery_point, committed)
    end_offset = previous_base = segments[first].base_offset
    whole = True  # whether the segment before ends as it did when it was sealed
    for slot in range(first, len(segments)):
        segment = segments[slot]
        gap = segment.base_offset - end_offset
        reachable = segment.base_offset - previous_base <= layout.RELATIVE_OFFSET_MAX + 1
        compacted = segment.base_offset <= cleaned_offset
        synced = segment.base_offset == recovery_point
        if gap < 0 or (gap > 0 and reachable and not (whole or compacted or synced)):
            if (
                segment.base_offset < recovery_point
                or end_offset < committed
                or is_end_torn_at_most
            ):
                raise _beyond_repair(
                    segment, 0, f"expected a segment from offset {end_offset} on", floor
                )
            report.reasons.append(
                f"{segment.path(layout.LOG)}: does not begin at offset {end_offset}"
            )
            _lose(report, about_to_lose)
            _drop(segments, slot, report)
            break
        previous_base = segment.base_offset
        saved = _saved_indexes(segment)
        scanned = _scan(segment, floor, settings, memory)
        end_offset, reason = scanned.end_offset, scanned.reason
        is_last = slot + 1 == len(segments)
        if reason is not None and not (scanned.is_incomplete and is_last):
            if is_end_torn_at_most:
                raise _beyond_repair(segment, scanned.size_bytes, reason)
            _lose(report, about_to_lose)
        if reason is not None:
            # First: cut off behind the damage, the segment may look whole and leave a gap.
            _drop(segments, slot + 1, report)
        _cut(segment, scanned, report)
        # A clean stop saves the indexes too, of a segment that may grow afterwards; the recovery
        # point tells the two apart.
        whole = end_offset != recovery_point and _ends_as_saved(
            segment, scanned, saved, may_be_lost=not is_end_torn_at_most
        )
        if reason is not None:
            report.reasons.append(f"{segment.path(layout.LOG)}: {reason}")
            break
    return end_offset


@dataclass(slots=True, kw_only=True)
class Scanned:
    """The valid batches of a segment, and what ends them: None if that is the end of the file."""

    end_offset: Offset
    size_bytes: int
    last_position: int  # where the last of them begins
    reason: str | None
    is_incomplete: bool  # the reason is a batch that was not written to its end


def _saved_indexes(segment: Segment) -> Indexes | None:
    """Those that were saved when the segment was sealed; None when they say nothing right."""
    try:
        return segment.read_indexes()
    except CorruptIndex:
        return None


def _ends_as_saved(
    segment: Segment, scanned: Scanned, saved: Indexes | None, *, may_be_lost: bool
) -> bool:
    """Whether the last batch is the one that the segment was sealed with, by its indexes.

    The time index has the largest timestamp; its offset is left out, since compaction by Apache
    Kafka notes another one of the same batch. Where power may have been lost that does not do: the
    last batch need not be the newest. There the offset index has to end with it, as ours do. One
    without an entry speaks for a single batch, and may as well have lost what was written to it.
    """
    if saved is None or len(saved.time) == 0:
        return False
    if saved.time.last()[0] != segment.largest_timestamp[0]:
        return False
    return not may_be_lost or (
        len(saved.offset) > 0 and saved.offset.last_position() == scanned.last_position
    )


def _scan(segment: Segment, floor: Offset, settings: TopicSettings, memory: LogMemory) -> Scanned:
    """Checks every batch up to the first bad one, and rebuilds the indexes."""
    size_bytes = segment.size_bytes
    segment.begin_indexes()
    memory.producers.pass_over(segment.base_offset)
    end_offset = segment.base_offset
    position = last_position = 0
    reason = None
    is_incomplete = False
    try:
        for position, batch in whole_batches(segment.file, start=0, end=size_bytes):
            reason = _error(batch, segment.base_offset, end_offset)
            if reason is not None:
                break
            segment.note(batch, position, interval_bytes=settings.index_interval_bytes)
            memory.take_up(batch, segment)
            end_offset = batch.next_offset
            last_position = position
            position += batch.size_bytes
    except IncompleteBatch as error:
        reason = error.reason
        is_incomplete = not _is_whole_by_checksum(segment, position)
    except CorruptBatch as error:
        reason = error.reason
    if reason is not None and end_offset < floor:
        raise _beyond_repair(segment, position, reason, floor)
    return Scanned(
        end_offset=end_offset,
        size_bytes=position,
        last_position=last_position,
        reason=reason,
        is_incomplete=is_incomplete,
    )


def _is_whole_by_checksum(segment: Segment, position: int) -> bool:
    """Whether a batch that seems to go on beyond the end of the file is a whole one, whose size
    alone is damaged: its checksum matches up to the end of the file, or up to the next batch.
    """
    size_bytes = segment.size_bytes - position
    if size_bytes > TORN_BYTES_MAX:
        return True  # no batch is that large
    rest = segment.file.read_at(position, size_bytes)
    if len(rest) < HEADER_BYTES:
        return False
    view = memoryview(rest)
    checksum: int = UINT32.unpack_from(rest, CHECKSUM_POSITION)[0]
    if crc32c(view[ATTRIBUTES_POSITION:]) == checksum:
        return True
    try:
        next_batch = INT64.pack(BatchHeader(rest).next_offset)
    except (CorruptBatch, struct.error):
        return False
    end = HEADER_BYTES
    for _ in range(ENDS_MAX):
        end = rest.find(next_batch, end)
        if end < 0:
            return False
        if crc32c(view[ATTRIBUTES_POSITION:end]) == checksum:
            return True
        end += 1
    return True  # not known: the safe answer


def _cut(segment: Segment, scanned: Scanned, report: RecoveryReport) -> None:
    """Truncates the file after its last valid batch."""
    cut = segment.size_bytes - scanned.size_bytes
    report.segments_scanned += 1
    report.indexes_rebuilt += 1
    report.bytes_scanned += scanned.size_bytes
    report.bytes_cut += cut
    segment.cut_file(scanned.size_bytes)
    if cut:
        # Else a power loss may bring back valid batches that stood behind the torn one, amid those
        # that are written there now.
        segment.file.sync()


def _lose(report: RecoveryReport, about_to_lose: Callable[[], None]) -> None:
    if report.intact:
        about_to_lose()
        report.intact = False


def _beyond_repair(
    segment: Segment, position: int, reason: str, floor: Offset | None = None
) -> CorruptLog:
    """Invariant 4, or with no floor, damage that cannot be a torn end."""
    why = (
        "no crash leaves that" if floor is None else f"no crash takes what is below offset {floor}"
    )
    reason = f"{reason}; {why}, so nothing is truncated"
    return CorruptLog(segment.path(layout.LOG), position=position, reason=reason)


def _error(batch: BatchView, base_offset: Offset, end_offset: Offset) -> str | None:
    """What keeps a batch from being the next one of its segment."""
    last_offset = batch.last_offset
    if not batch.checksum_matches():
        return f"the checksum of the batch at offset {batch.base_offset} does not match"
    if batch.base_offset < end_offset or last_offset < batch.base_offset:
        return f"offsets {batch.base_offset} to {last_offset}, expected {end_offset}"
    if batch.leader_epoch < NO_LEADER_EPOCH:
        return f"leader epoch {batch.leader_epoch} of the batch at offset {batch.base_offset}"
    if last_offset - base_offset > layout.RELATIVE_OFFSET_MAX:
        return f"offset {last_offset} is too far from base offset {base_offset}"
    return None


def _drop(segments: list[Segment], kept: int, report: RecoveryReport) -> None:
    """Removes segments from the end on, so that a kill in here leaves no hole. A power loss may
    bring back any of them: without a saved index none of these is taken to be whole.
    """
    if len(segments) == kept:
        return
    for segment in segments[kept:]:
        segment.remove_saved_indexes()
    segments[-1].sync_names()
    while len(segments) > kept:
        segment = segments.pop()
        report.segments_dropped += 1
        report.bytes_cut += segment.size_bytes
        segment.remove_files()
    segment.sync_names()

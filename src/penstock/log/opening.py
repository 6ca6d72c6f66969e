"""Opens a log: from the files in a partition's directory to a log that can be written to."""

from collections.abc import Callable

from penstock.log.creation import claim_directory, new_segment
from penstock.log.durability import Checkpoints
from penstock.log.leftovers import tidy
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.memory import LogMemory
from penstock.log.partition_log import PartitionLog
from penstock.log.parts import LogParts
from penstock.log.recovery import find_segments, load
from penstock.log.removals import Removals
from penstock.log.segment import Segment
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.layout import FIRST_OFFSET
from penstock.world.errors import DiskError
from penstock.world.ports import Disk

PRODUCER_EXPIRY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What the checkpoints and the metadata say about the log to be opened."""

    clean: bool = False
    recovery_point: Offset = FIRST_OFFSET
    start_offset: Offset = FIRST_OFFSET
    cleaned_offset: Offset | None = None
    watermark: Offset | None = None
    committed: Offset = FIRST_OFFSET  # no crash that may have been takes what is below it
    is_end_torn_at_most: bool = False  # none takes more than the end of the last batch
    found: bool = False  # the directory has been there before, with a log


NOTHING_KNOWN = LeftBehind()


def open_log(
    *,
    disk: Disk,
    directory: str,
    partition: TopicPartition,
    topic_id: TopicId,
    settings: TopicSettings,
    now_ms: int,
    left: LeftBehind = NOTHING_KNOWN,
    producer_expiry_ms: int = PRODUCER_EXPIRY_MS,
    loaded: LoadedIndexes | None = None,
    checkpoints: Checkpoints | None = None,
    removals: Removals | None = None,
    about_to_lose: Callable[[], None] = lambda: None,
) -> PartitionLog:
    """Loads the log in `directory`, or creates one that begins at `left.start_offset`.

    `about_to_lose` is called before recovery removes anything but an incomplete batch at the end.
    """
    loaded = LoadedIndexes() if loaded is None else loaded
    parts = _load_parts(
        disk,
        directory,
        topic_id=topic_id,
        settings=settings,
        left=left,
        now_ms=now_ms,
        producer_expiry_ms=producer_expiry_ms,
        loaded=loaded,
        about_to_lose=about_to_lose,
    )
    return PartitionLog(
        parts,
        disk=disk,
        directory=directory,
        partition=partition,
        settings=settings,
        recovery_point=left.recovery_point,
        cleaned_offset=left.cleaned_offset,
        watermark=left.watermark,
        loaded=loaded,
        checkpoints=checkpoints,
        removals=Removals() if removals is None else removals,
        now_ms=now_ms,
    )


def _not_deleted(offset: Offset, left: LeftBehind) -> Offset:
    """Up to where records must be there: none, if all below the offset are deleted. A log that is
    emptied to begin further up has its new start first, and then loses its segments one by one.
    """
    return FIRST_OFFSET if offset <= left.start_offset else offset


def _load_parts(
    disk: Disk,
    directory: str,
    *,
    topic_id: TopicId,
    settings: TopicSettings,
    left: LeftBehind,
    now_ms: int,
    producer_expiry_ms: int,
    loaded: LoadedIndexes,
    about_to_lose: Callable[[], None],
) -> LogParts:
    topic_id = claim_directory(disk, directory, topic_id)
    tidy(disk, directory)
    segments, snapshots = find_segments(
        disk, directory, settings=settings, now_ms=now_ms, loaded=loaded
    )
    deleted: list[Segment] = []  # by a deletion that was cut off
    while len(segments) > 1 and segments[1].base_offset <= left.start_offset:
        deleted.append(segments.pop(0))
    fresh = not segments
    if fresh:
        if left.found:
            about_to_lose()
        segments = [new_segment(disk, directory, left.start_offset, now_ms, loaded)]
    memory = LogMemory(
        disk=disk,
        directory=directory,
        snapshot_offsets=snapshots,
        start_offset=max(left.start_offset, segments[0].base_offset),
        producer_expiry_ms=producer_expiry_ms,
    )
    if deleted and not left.clean:
        _learn_epochs(memory, deleted, segments[0], left.recovery_point)
    for segment in deleted:
        segment.remove_files()
    if fresh:
        # That one is of a log that was killed while it began anew at its start.
        memory.snapshots.remove_all(but=(left.start_offset,))
    else:
        memory.snapshots.remove_below(segments[0].base_offset)
    if left.watermark is not None:
        memory.producers.note_ended(left.watermark)
    found = load(
        segments,
        clean=left.clean or fresh,
        recovery_point=_not_deleted(left.recovery_point, left),
        committed=FIRST_OFFSET if fresh else _not_deleted(left.committed, left),
        is_end_torn_at_most=left.is_end_torn_at_most,
        cleaned_offset=FIRST_OFFSET if left.cleaned_offset is None else left.cleaned_offset,
        settings=settings,
        memory=memory,
        about_to_lose=about_to_lose,
    )
    if left.watermark is not None:
        memory.note_opened(above=left.watermark, end_offset=found.end_offset)
    if fresh and left.found:
        found.report.reasons.append(f"{directory}: has no segment")
    # Without a file there are no epochs below the recovery point (invariant 2 of `log/epochs`).
    synced = left.clean or (left.recovery_point or 0) > memory.start_offset
    absent = memory.epochs_are_absent and synced and found.end_offset > memory.start_offset
    if memory.epochs_are_lost or absent:
        found.report.reasons.append(f"{directory}: rebuilt the leader epochs from the log")
        memory.relearn_epochs(found.segments)
    return LogParts(
        topic_id=topic_id,
        segments=found.segments,
        memory=memory,
        end_offset=found.end_offset,
        recovery=found.report,
        fresh=fresh,
    )


def _learn_epochs(
    memory: LogMemory, deleted: list[Segment], kept: Segment, recovery_point: Offset
) -> None:
    """The epochs of records that are about to be removed, all below the first segment that is
    `kept`: those above the recovery point may be in no file yet, and the last one stays known
    (`log/epochs`). `load` finds those from that segment on. Without a file that can be read, all
    are learned. It is not written then while the recovery point is above them: it would not have
    those up to that point, and the next start would believe it.
    """
    until_offset = kept.base_offset
    ends = [*(segment.base_offset for segment in deleted[1:]), until_offset]
    unsynced = [one for one, end in zip(deleted, ends, strict=True) if end > recovery_point]
    if memory.epochs_are_lost or memory.epochs_are_absent:
        memory.learn_epochs([*deleted, kept])
    elif unsynced:
        memory.learn_epochs([*unsynced, kept])
    if unsynced:
        try:
            memory.save_epochs(until_offset)
        except DiskError as error:
            if not error.full:
                raise  # else the segments go, to make room

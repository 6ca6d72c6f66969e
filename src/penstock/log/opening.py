"""Opening a log: from whatever lies in a partition's directory to the parts of a log."""

from dataclasses import dataclass

from penstock.log.creation import claim_directory, new_segment
from penstock.log.leftovers import tidy
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.memory import LogMemory
from penstock.log.recovery import RecoveryReport, find_segments, load
from penstock.log.segment import Segment
from penstock.model.identity import TopicId
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.world.ports import Disk


@dataclass(slots=True, kw_only=True)
class LogParts:
    """What a log consists of."""

    topic_id: TopicId
    segments: list[Segment]  # the last one is active
    memory: LogMemory
    end_offset: Offset
    recovery: RecoveryReport
    fresh: bool  # there was none before


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What is known from elsewhere of the log that is to be opened."""

    clean: bool
    recovery_point: Offset
    start_offset: Offset


def open_parts(
    disk: Disk,
    directory: str,
    *,
    topic_id: TopicId,
    settings: TopicSettings,
    left: LeftBehind,
    now_ms: int,
    producer_expiry_ms: int,
    loaded: LoadedIndexes,
) -> LogParts:
    """Loads the log in `directory`, or makes one that begins at `left.start_offset`."""
    topic_id = claim_directory(disk, directory, topic_id)
    tidy(disk, directory)
    segments, snapshots = find_segments(
        disk, directory, settings=settings, now_ms=now_ms, loaded=loaded
    )
    while len(segments) > 1 and segments[1].base_offset <= left.start_offset:
        segments.pop(0).remove_files()  # a deletion that was cut off
    fresh = not segments
    if fresh:
        segments = [new_segment(disk, directory, left.start_offset, now_ms, loaded)]
    memory = LogMemory(
        disk=disk,
        directory=directory,
        snapshot_offsets=snapshots,
        start_offset=max(left.start_offset, segments[0].base_offset),
        producer_expiry_ms=producer_expiry_ms,
    )
    found = load(
        segments,
        clean=left.clean or fresh,
        recovery_point=left.recovery_point,
        settings=settings,
        memory=memory,
    )
    if memory.epochs_are_lost:
        found.report.reasons.append(f"{directory}: the leader epochs were learnt anew")
        memory.relearn_epochs(found.segments)
    return LogParts(
        topic_id=topic_id,
        segments=found.segments,
        memory=memory,
        end_offset=found.end_offset,
        recovery=found.report,
        fresh=fresh,
    )

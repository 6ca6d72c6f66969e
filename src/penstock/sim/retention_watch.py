"""Looks at the disk in the moment in which a log loses its oldest segments: was it their time?

A log says where it begins in two ways: in the checkpoint of start offsets, and by the name of its
first segment. Both change by a renaming. Just before it the segments are all there, with their
sizes and times, and the clock shows what the node has seen: what is allowed can be told exactly,
by rules written anew from what Apache Kafka promises. A deletion that a client asked for, and
compaction, take segments too.
"""

from dataclasses import dataclass

from penstock.log.checkpoint import decode_offsets
from penstock.log.layout import (
    DELETED,
    LOG,
    START_OFFSETS,
    SWAP,
    parse_partition_directory,
    parse_segment_file,
)
from penstock.model.identity import TopicPartition
from penstock.records.batch import batches
from penstock.sim.clock import BEGIN_MS, SimClock
from penstock.sim.errors import Violation
from penstock.sim.file_system import Content, FileSystem, Folder
from penstock.sim.history import History
from penstock.sim.scenario import TopicPlan
from penstock.sim.trace import Trace


@dataclass(slots=True, kw_only=True)
class Stored:
    """One segment as it lies on disk."""

    base_offset: int
    end_offset: int  # where the next one begins, or its last batch ends
    size_bytes: int
    latest_ms: int


class RetentionWatch:
    """`found` is the first violation: who renames is in the middle of its work."""

    def __init__(
        self,
        *,
        file_system: FileSystem,
        clock: SimClock,
        history: History,
        trace: Trace,
        topics: tuple[TopicPlan, ...],
    ) -> None:
        self.found: Violation | None = None
        self._file_system = file_system
        self._clock = clock
        self._history = history
        self._trace = trace
        self._topics = {topic.name: topic for topic in topics}

    def about_to_rename(self, source: str, target: str) -> None:
        directory, _, name = target.rpartition("/")
        if name == START_OFFSETS:
            content = self._file_system.find(source)
            assert isinstance(content, Content), source
            for partition, start in sorted(decode_offsets(source, bytes(content.data)).items()):
                self._begins(partition, start, directory=f"{directory}/{partition}")
        elif name.endswith(LOG + DELETED):
            losing = parse_partition_directory(directory.rpartition("/")[2])
            if losing is not None:
                self._loses(losing, name.removesuffix(DELETED), directory=directory)

    def look_at(self, partition: TopicPartition, start_offset: int) -> None:
        """What anybody may have been told of a log's start never goes back."""
        if partition.topic not in self._topics:
            return
        known = self._history.of(partition)
        if start_offset < known.start_seen:
            self._report(
                f"{partition} begins at {start_offset}, and has begun at {known.start_seen}"
            )
        known.start_seen = max(known.start_seen, start_offset)

    def _loses(self, partition: TopicPartition, name: str, *, directory: str) -> None:
        if any(other.endswith(LOG + SWAP) for other in self._folder(directory).entries):
            return  # compaction has another one in its place
        parsed = parse_segment_file(name)
        for segment in self._segments(directory):
            if parsed is not None and segment.base_offset == parsed[0]:
                self._begins(partition, segment.end_offset, directory=directory)

    def _begins(self, partition: TopicPartition, start: int, *, directory: str) -> None:
        plan = self._topics.get(partition.topic)
        known = self._history.of(partition)
        if plan is None or start <= max(known.expired_until, known.deletion_asked):
            return
        segments = self._segments(directory)
        now_ms = self._clock.now_ms()
        until = max(known.expired_until, known.deletion_asked)
        for slot, segment in enumerate(segments):
            if segment.base_offset >= start or segment.end_offset <= until:
                continue
            left_bytes = sum(later.size_bytes for later in segments[slot + 1 :])
            surplus = plan.retention_bytes is not None and left_bytes >= plan.retention_bytes
            age_ms = now_ms - segment.latest_ms
            old = plan.retention_ms is not None and age_ms > plan.retention_ms
            if not surplus and not old:
                self._report(
                    f"{partition}: segment {segment.base_offset} of {segment.size_bytes} bytes goes"
                    f" at an age of {age_ms} ms, with {left_bytes} bytes after it"
                )
            if segment.end_offset > start:
                self._report(f"{partition} begins at {start}, in the middle of a segment")
        self._trace.note("retention", f"{partition} begins at {start}")
        known.expired_until = start

    def _segments(self, directory: str) -> list[Stored]:
        found: dict[int, Content] = {}
        for name, entry in sorted(self._folder(directory).entries.items()):
            # One that takes the place of others may not have got its name yet.
            parsed = parse_segment_file(name.removesuffix(SWAP))
            if parsed is not None and parsed[1] == LOG and isinstance(entry, Content):
                found.setdefault(parsed[0], entry)
        segments: list[Stored] = []
        for base_offset, content in sorted(found.items()):
            if segments:
                segments[-1].end_offset = base_offset
            end_offset, latest_ms = base_offset, -1
            for batch in batches(memoryview(bytes(content.data))):
                end_offset = batch.next_offset
                latest_ms = max(latest_ms, batch.max_timestamp)
            segments.append(
                Stored(
                    base_offset=base_offset,
                    end_offset=end_offset,
                    size_bytes=len(content.data),
                    latest_ms=BEGIN_MS + content.modified_us // 1000
                    if latest_ms < 0
                    else latest_ms,
                )
            )
        return segments

    def _folder(self, directory: str) -> Folder:
        folder = self._file_system.find(directory)
        assert isinstance(folder, Folder), directory
        return folder

    def _report(self, message: str) -> None:
        if self.found is None:
            self.found = Violation("retention", message)

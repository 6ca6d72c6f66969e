"""Which part of a log can be compacted, whether it is worth it, and the input of a pass.

    start_offset          first_dirty_offset               until_offset
      |  compacted before  |  dirty: keys are mapped here   |  stays as it is: not stable, not
      [...................)[...............................)[  synced, too young, or active

A pass reads the keys of the dirty part and rewrites everything up to where it has read.

Invariants:
 1. Whole segments are compacted, never the active one.
 2. Everything up to `until_offset` is on disk: when an older value is removed because of a newer
    one, a power loss must not lose the newer one.
"""

from collections.abc import Iterator, Mapping, Sequence

from penstock.log.aborted_index import AbortedTransaction
from penstock.log.layout import RELATIVE_OFFSET_MAX
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.setting import LONG_MAX
from penstock.model.settings.topic import TopicSettings

COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """How much of a log is not compacted."""

    first_dirty_offset: Offset
    until_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # some of it is older than max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def is_worth_it(self, settings: TopicSettings) -> bool:
        # A log that starts within a segment has dirty bytes below its first dirty offset too.
        if self.dirty_bytes == 0 or self.until_offset <= self.first_dirty_offset:
            return False
        return self.overdue or self.ratio > settings.min_cleanable_dirty_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One segment that a pass reads."""

    base_offset: Offset
    end_offset: Offset  # where the next segment begins
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOfProducer:
    """What must stay in the log to keep the state of a producer."""

    last_offset: Offset | None  # of its last batch of data; None: its last marker alone
    epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerLimits:
    """How much memory and I/O a pass may use."""

    memory_bytes: int  # for the offsets of keys
    load_factor: float
    bytes_per_second: float  # read and written together


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPass:
    """Everything a pass needs to know: plain values, so that another process can run it."""

    directory: str
    sources: tuple[Source, ...]
    first_dirty_offset: Offset
    until_offset: Offset
    aborted: tuple[AbortedTransaction, ...]
    last_of_producers: Mapping[ProducerId, LastOfProducer]
    settings: TopicSettings
    limits: CleanerLimits
    now_ms: int

    @property
    def from_offset(self) -> Offset:
        return self.sources[0].base_offset if self.sources else self.until_offset


def dirt_of(
    log: PartitionLog, *, cleaned_offset: Offset | None, stable_offset: Offset, now_ms: int
) -> Dirt:
    """What could be compacted now; `cleaned_offset` is the end of the last pass, if that is known.

    `stable_offset` is the last stable offset: records above it may still be aborted.
    """
    first_dirty_offset = cleaned_offset
    if first_dirty_offset is None or not log.start_offset <= first_dirty_offset <= log.end_offset:
        first_dirty_offset = log.start_offset
    until_offset = _until_offset(log, first_dirty_offset, stable_offset, now_ms)
    clean = [one for one in log.segments if one.base_offset < first_dirty_offset]
    dirty = [one for one, _ in _sealed(log, first_dirty_offset) if one.base_offset < until_offset]
    return Dirt(
        first_dirty_offset=first_dirty_offset,
        until_offset=until_offset,
        clean_bytes=sum(segment.size_bytes for segment in clean),
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        overdue=_is_overdue(log, first_dirty_offset, now_ms),
    )


def plan_pass(log: PartitionLog, dirt: Dirt, limits: CleanerLimits, *, now_ms: int) -> CleaningPass:
    """A pass over the dirty part, as far as the memory for its keys allows."""
    aborted = [
        transaction
        for segment in log.segments
        for transaction in segment.aborted_transactions
        if transaction.first_offset < dirt.until_offset
    ]
    return CleaningPass(
        directory=log.directory,
        sources=tuple(
            Source(
                base_offset=segment.base_offset,
                end_offset=end_offset,
                size_bytes=segment.size_bytes,
            )
            for segment, end_offset in _sealed(log, log.segments[0].base_offset)
            if end_offset <= dirt.until_offset
        ),
        first_dirty_offset=dirt.first_dirty_offset,
        until_offset=dirt.until_offset,
        aborted=tuple(sorted(aborted, key=lambda one: one.first_offset)),
        last_of_producers={
            producer_id: LastOfProducer(
                last_offset=producer.batches[-1].last_offset if producer.batches else None,
                epoch=producer.epoch,
            )
            for producer_id, producer in log.producers.by_id.items()
        },
        settings=log.settings,
        limits=limits,
        now_ms=now_ms,
    )


def groups_of(
    sources: Sequence[Source], index_bytes: Mapping[Offset, int], settings: TopicSettings
) -> Iterator[list[Source]]:
    """Groups of neighbouring segments that fit into one: compaction must not leave many small ones.

    `index_bytes` is the size of the larger index of each, by base offset.
    """
    group: list[Source] = []
    size_bytes = indexes_bytes = 0
    for source in sources:
        size_bytes += source.size_bytes
        indexes_bytes += index_bytes[source.base_offset]
        fits = (
            size_bytes <= settings.segment_bytes
            and indexes_bytes <= settings.segment_index_bytes
            and group
            and (
                source.size_bytes == 0
                or source.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if group and not fits:
            yield group
            group = []
        if not group:
            size_bytes = source.size_bytes
            indexes_bytes = index_bytes[source.base_offset]
        group.append(source)
    if group:
        yield group


def _until_offset(
    log: PartitionLog, first_dirty_offset: Offset, stable_offset: Offset, now_ms: int
) -> Offset:
    synced_offset = min(stable_offset, log.recovery_point)  # invariant 2
    lag_ms = log.settings.min_compaction_lag_ms
    for segment, end_offset in _sealed(log, first_dirty_offset):
        too_young = lag_ms > 0 and segment.largest_timestamp[0] > now_ms - lag_ms
        if end_offset > synced_offset or too_young:
            return max(first_dirty_offset, segment.base_offset)
    return max(first_dirty_offset, log.segments[-1].base_offset)


def _is_overdue(log: PartitionLog, first_dirty_offset: Offset, now_ms: int) -> bool:
    lag_ms = log.settings.max_compaction_lag_ms
    if lag_ms == LONG_MAX:
        return False  # spares the reading of first timestamps
    return any(
        0 < segment.first_timestamp_ms < now_ms - lag_ms
        for segment, _ in _sealed(log, first_dirty_offset)
    )


def _sealed(log: PartitionLog, offset: Offset) -> Iterator[tuple[Segment, Offset]]:
    """The segments that are no longer written to and reach `offset`, with their end offsets."""
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > offset:
            yield segment, following.base_offset

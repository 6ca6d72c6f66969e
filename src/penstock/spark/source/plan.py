"""From offsets to the ranges that tasks read: how much at a time, in how many parts, what is lost.

Pure. A batch of a query is the offsets from `start` to `end`, both by partition:

    held      ends that are not before the start: what was read beyond the last stable offset, and
              not beyond the high watermark, is waited for
    begins    where reading really begins: new partitions at their first record, and behind
              whatever has been lost, each loss a sentence for the user
    retained  the same, behind what retention has deleted meanwhile
    limited   ends that are nearer, when a trigger may only read so many records; `limited_bytes`
              by their size
    ranges    what is to be read, one range for each partition
    split     the same in more parts

Invariant: the ranges are disjoint, and together hold every offset from begin to end and no other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace

from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.positions import Offsets

RECORD_BYTES_USUAL = 1024.0  # where nothing is known

Positions = Mapping[TopicPartition, Offset]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """Offsets [start, end) of one partition, of the topic that has this id."""

    partition: TopicPartition
    start: Offset
    end: Offset
    topic_id: TopicId

    def __post_init__(self) -> None:
        assert 0 <= self.start < self.end, self

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins:
    offsets: Offsets
    losses: tuple[str, ...]  # what is lost, in sentences; the offsets go on behind it


def read_beyond(
    start: Positions, end: Positions, *, remade: Iterable[str] = ()
) -> tuple[TopicPartition, ...]:
    """The partitions that were read further than `end`. Those of `remade` topics do not count:
    their offsets are of another log.
    """
    anew = frozenset(remade)
    return tuple(
        one for one in sorted(end) if one.topic not in anew and start.get(one, 0) > end[one]
    )


def held(start: Positions, end: Positions, *, high_watermarks: Positions) -> Offsets:
    """The ends, by the high watermarks of the partitions that were `read_beyond` them.

    A checkpoint made with read_uncommitted may lie beyond the last stable offset. As long as it is
    not beyond the high watermark, the log still has what was read: such a partition ends where it
    starts, until its last stable offset is there too. Beyond the high watermark the log is another
    one than was read, or a shorter one: it ends at the high watermark, before the start, which
    `begins` reports. At the last stable offset it would end too early: what lies above it may have
    been read.
    """
    return {
        one: min(start[one], high_watermarks[one]) if one in high_watermarks else at
        for one, at in end.items()
    }


def begins(
    start: Positions, end: Positions, *, earliest: Positions, remade: Iterable[str] = ()
) -> Begins:
    """Where reading begins in each partition of `end`. Topics that were deleted and made anew
    since `start` are `remade`: they begin with their first record. A log that is shorter than
    `start` begins at its end, as with Spark's own source: read from its first record it would
    repeat, after a truncation, all that was read before.
    """
    found: Offsets = {}
    losses = []
    anew = frozenset(remade)
    for partition in sorted(set(start) - set(end)):
        losses.append(
            f"{partition} does not exist any more: it was to be read from offset"
            f" {start[partition]} on"
        )
    for partition in sorted(end):
        first = earliest[partition]
        told = start.get(partition)
        begin = first if told is None else told
        if told is None:
            if first != 0:
                losses.append(f"{partition} is new and begins at offset {first} instead of 0")
        elif partition.topic in anew:
            losses.append(f"{partition}: topic {partition.topic} was deleted and created again")
            begin = first
        elif told > end[partition]:
            losses.append(
                f"{partition} was read up to offset {told}, and its log ends at {end[partition]}:"
                " its topic was deleted and created again, or its log was truncated"
            )
            begin = end[partition]
        elif told < min(first, end[partition]):
            losses.append(
                f"{partition}: offsets {told} to {min(first, end[partition]) - 1} are gone, its log"
                f" begins at {first}"
            )
            begin = first
        found[partition] = min(begin, end[partition])
    return Begins(offsets=found, losses=tuple(losses))


def retained(begin: Positions, end: Positions, *, earliest: Positions) -> Offsets:
    """Where there is something to read, for a batch that ends before the log does. Counted from
    `begin`, batch after batch would hold nothing but deleted records. What is skipped is reported
    by `begins` when the batch is planned: once, and as a whole.
    """
    return {one: Offset(min(end[one], max(at, earliest.get(one, at)))) for one, at in begin.items()}


def limited(begin: Positions, end: Positions, *, records_max: int) -> Offsets:
    """Ends for so many records in all, shared out by what each partition has waiting.

    Every partition that has something gets on, by one record at least: that many may be more.
    """
    assert records_max > 0
    waiting = {partition: end[partition] - begin[partition] for partition in end}
    total = sum(waiting.values())
    found = {}
    for partition in sorted(end):
        share = max(1, records_max * waiting[partition] // max(total, 1))
        found[partition] = Offset(min(end[partition], begin[partition] + share))
    return found


def limited_bytes(
    begin: Positions,
    end: Positions,
    *,
    record_bytes: Mapping[TopicPartition, float],
    bytes_max: int,
) -> Offsets:
    """The same for about so many bytes, if records have the sizes of `record_bytes`."""
    assert bytes_max > 0
    behind = [one for one in end if begin[one] < end[one]]
    total = sum((end[one] - begin[one]) * record_bytes[one] for one in behind)
    if total <= bytes_max:
        return dict(end)
    share = bytes_max / total
    return {
        one: Offset(min(end[one], begin[one] + max(1, int((end[one] - begin[one]) * share))))
        for one in sorted(end)
    }


def record_bytes_of(
    sizes: Mapping[TopicPartition, int], *, earliest: Positions, latest: Positions
) -> dict[TopicPartition, float]:
    """What an offset of each partition of `latest` takes in its log, on average. A partition whose
    size is not known is like the others.
    """
    counts = {one: latest[one] - earliest.get(one, latest[one]) for one in latest}
    known = {one: count for one, count in counts.items() if count > 0 and sizes.get(one, 0) > 0}
    usual = sum(sizes[one] for one in known) / sum(known.values()) if known else RECORD_BYTES_USUAL
    return {one: sizes[one] / known[one] if one in known else usual for one in latest}


def waiting(begin: Positions, end: Positions) -> int:
    """How many offsets there are to be read."""
    return sum(end[partition] - begin[partition] for partition in end)


def ranges(begin: Positions, end: Positions, *, ids: Mapping[str, TopicId]) -> list[ReadRange]:
    """What is to be read of each partition, if anything is."""
    return [
        ReadRange(
            partition=partition,
            start=begin[partition],
            end=end[partition],
            topic_id=ids[partition.topic],
        )
        for partition in sorted(end)
        if begin[partition] < end[partition]
    ]


def split(
    whole: Iterable[ReadRange], *, parts_min: int | None = None, records_max: int | None = None
) -> list[ReadRange]:
    """The same in parts of `records_max` at most, and in `parts_min` parts, if there are so many
    records: the largest are divided first.
    """
    found = list(whole)
    counts = [1 if records_max is None else -(-one.size // records_max) for one in found]
    missing = (parts_min or 0) - sum(counts)
    if missing > 0 and found:
        # The largest part first, and of equal ones the one that comes first.
        heap = [(-(one.size / counts[at]), at) for at, one in enumerate(found)]
        heapify(heap)
        for _ in range(min(missing, sum(one.size for one in found) - sum(counts))):
            _, at = heap[0]
            counts[at] += 1
            heapreplace(heap, (-(found[at].size / counts[at]), at))
    return [part for one, count in zip(found, counts, strict=True) for part in _parts(one, count)]


def _parts(whole: ReadRange, count: int) -> list[ReadRange]:
    count = min(count, whole.size)
    bounds = [whole.start + whole.size * at // count for at in range(count + 1)]
    return [
        ReadRange(
            partition=whole.partition,
            start=Offset(bounds[at]),
            end=Offset(bounds[at + 1]),
            topic_id=whole.topic_id,
        )
        for at in range(count)
    ]

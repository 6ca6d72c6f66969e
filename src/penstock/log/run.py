"""A run: whole batches one after the other, as a follower gets them from its leader.

    | batch | batch | ... | batch | an incomplete batch, or one of a newer leader epoch: left out

Offsets and leader epochs are in the batches already. `check_run` looks at everything that could be
wrong before anything is written; no record is looked at. The rules are those of Apache Kafka's
followers:

 - Old message formats are accepted: a log may hold them from before.
 - Offsets increase and may have gaps, because the leader's log may be compacted. A gap may also be
   at the beginning of the run.
 - A batch of a higher leader epoch than the follower's ends the run (KAFKA-18723): the sender has
   lost its leadership since, truncated its log and appended to it what the next leader sent, while
   this reply was on its way.

Stricter than there: leader epochs must not decrease, because epochs could not be compared any more.
A batch of an unknown epoch (-1, as in the old formats) may stand anywhere; one of an epoch below
that is damaged, as for recovery: the checksum does not cover epochs.
"""

from typing import Final

from penstock.log.errors import CorruptRun
from penstock.log.layout import OFFSET_MAX
from penstock.log.segments import Segments
from penstock.model.identity import TopicPartition
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch, Offset
from penstock.records.batch import BatchHeader, BatchView
from penstock.records.checksum import crc32c
from penstock.records.errors import CorruptBatch
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    INT32,
    LEGACY_BYTES_MIN,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V2,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    SIZE_POSITION,
)


class Run:
    """A checked run. Built per reply of a leader: plain slots."""

    __slots__ = ("batches", "ends", "max_timestamp")

    def __init__(self) -> None:
        self.batches: list[BatchHeader] = []
        self.ends = [0]  # in bytes: batch i is in [ends[i], ends[i + 1])
        self.max_timestamp = NO_TIMESTAMP

    def fitting(self, first: int, segments: Segments) -> int:
        """The end of the batches from `first` on that certainly go into the active segment."""
        batches, ends, limits = self.batches, self.ends, segments.limits
        size_bytes_max = limits.size_bytes - segments.active.size_bytes + ends[first]
        if (
            ends[-1] <= size_bytes_max
            and self.max_timestamp <= limits.timestamp_ms
            and batches[-1].last_offset <= limits.last_offset
        ):
            return len(batches)
        for number in range(first, len(batches)):
            batch = batches[number]
            if (
                ends[number + 1] > size_bytes_max
                or batch.max_timestamp > limits.timestamp_ms
                or batch.last_offset > limits.last_offset
            ):
                return number
        return len(batches)


def check_run(
    data: memoryview,
    *,
    partition: TopicPartition,
    start_offset: Offset,
    end_offset: Offset,
    last_epoch: LeaderEpoch,
    leader_epoch: LeaderEpoch,
) -> Run:
    """The batches in `data` that may be appended to a log in [start_offset, end_offset) whose last
    record is of `last_epoch`, by a follower in `leader_epoch`; CorruptRun when one is wrong.

    If the log is empty, its end may be inside of the first batch: see `_first_offset`.
    """
    run = Run()
    batches = run.batches
    expected, position = end_offset, 0
    if start_offset == end_offset:
        expected = _first_offset(data, partition, end_offset)
    while (header := _header(data, position, partition, expected)) is not None:
        epoch = header.leader_epoch
        if epoch > leader_epoch:
            break
        if (
            not expected <= header.base_offset <= header.last_offset < OFFSET_MAX
            or NO_LEADER_EPOCH < epoch < last_epoch
            or epoch < NO_LEADER_EPOCH
            or not _checksum_matches(data, position, header)
        ):
            raise CorruptRun(partition, expected, _what_is_wrong(header, expected, last_epoch))
        batches.append(header)
        position += header.size_bytes
        run.ends.append(position)
        expected = header.next_offset
        if epoch > last_epoch:
            last_epoch = epoch
        if header.max_timestamp > run.max_timestamp:
            run.max_timestamp = header.max_timestamp
    return run


def _first_offset(data: memoryview, partition: TopicPartition, end_offset: Offset) -> Offset:
    """Where an empty log that ends at `end_offset` has to begin for its first batch.

    Records were deleted up to an offset inside of a batch: the leader's log begins there, so does
    an empty follower's, and the leader sends the whole batch.
    """
    first = _header(data, 0, partition, end_offset)
    if first is not None and 0 <= first.base_offset < end_offset <= first.last_offset:
        return first.base_offset
    return end_offset


def _what_is_wrong(header: BatchHeader, expected: Offset, last_epoch: LeaderEpoch) -> str:
    base_offset, last_offset = header.base_offset, header.last_offset
    if not base_offset <= last_offset < OFFSET_MAX:
        return f"a batch has offsets {base_offset} to {last_offset}"
    if base_offset < expected:
        return f"a batch begins at offset {base_offset}"
    if header.leader_epoch < NO_LEADER_EPOCH:
        return f"the batch at offset {base_offset} is of leader epoch {header.leader_epoch}"
    if NO_LEADER_EPOCH < header.leader_epoch < last_epoch:
        return (
            f"the batch at offset {base_offset} is of leader epoch {header.leader_epoch},"
            f" after one of {last_epoch}"
        )
    return f"the checksum of the batch at offset {base_offset} does not match"


def _header(
    data: memoryview, position: int, partition: TopicPartition, expected: Offset
) -> BatchHeader | None:
    """The header of the whole batch at `position`; None when it is incomplete or there is none."""
    room = len(data) - position
    if room <= MAGIC_POSITION:
        return None
    size_bytes = UNPACK_INT32(data, position + SIZE_POSITION)[0] + OVERHEAD_BYTES
    try:
        if size_bytes < SIZE_MIN:
            raise CorruptBatch(f"a batch of {size_bytes} bytes")
        return BatchHeader(data, position) if size_bytes <= room else None
    except CorruptBatch as error:
        raise CorruptRun(partition, expected, error.reason) from error


def _checksum_matches(data: memoryview, position: int, header: BatchHeader) -> bool:
    end = position + header.size_bytes
    if header.magic == MAGIC_V2:
        return crc32c(data[position + ATTRIBUTES_POSITION : end]) == header.checksum
    return BatchView(data[position:end]).checksum_matches()


UNPACK_INT32: Final = INT32.unpack_from
SIZE_MIN: Final = LEGACY_BYTES_MIN[MAGIC_V0]

"""Copies the log of a partition into another directory, and keeps the copy in step with it.

The copy follows its source as a follower does its leader: where the source was cut off, it is cut
off too; what was deleted there is deleted here. Nothing is remembered between two steps: what comes
next follows from the two logs, so that a copy which a crash has left is continued.

Start reading at `next_step` and `take_step`.
"""

from typing import Protocol, assert_never

from penstock.log.epochs import LeaderEpochs
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import ReadBounds
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset

ANY_EPOCH = LeaderEpoch(2**31 - 1)


class Extent(Protocol):
    """What a log holds: offsets in [start_offset, end_offset), written in these epochs."""

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def epochs(self) -> LeaderEpochs: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Nothing of the future log is in the current one any more: it begins anew at this offset."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The current log was cut off: so is the future one, at this offset."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseStart:
    """Records below this offset were deleted."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Batches from this offset on are to be copied."""

    from_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """Both logs hold the same."""


Step = Restart | Cut | RaiseStart | Copy | CaughtUp


def next_step(source: Extent, future: Extent) -> Step:
    """What brings the future log closer to its source. Each step but the last changes the future
    log, so that repeated steps come to an end while the source stands still.
    """
    if future.end_offset < source.start_offset:
        return Restart(offset=source.start_offset)
    agreed = _agreed_offset(source, future)
    if agreed < future.end_offset:
        if agreed <= source.start_offset:
            return Restart(offset=source.start_offset)
        return Cut(offset=agreed)
    if future.start_offset < source.start_offset:
        return RaiseStart(offset=source.start_offset)
    if future.start_offset > source.start_offset:
        return Restart(offset=source.start_offset)
    if future.end_offset < source.end_offset:
        return Copy(from_offset=future.end_offset)
    return CaughtUp()


def take_step(
    step: Step, source: PartitionLog, future: PartitionLog, *, size_bytes_max: int, now_ms: int
) -> int:
    """Carries a step out; returns how many bytes were copied: those of one batch at least, and else
    no more than `size_bytes_max`.

    CorruptRun, CorruptLog: a batch of the source is damaged. DiskError: of either log.
    """
    match step:
        case Restart():
            future.truncate_fully_and_start_at(step.offset)
        case Cut():
            future.truncate_to(step.offset)
        case RaiseStart():
            future.advance_start(step.offset)
        case Copy():
            return _copy(source, future, step.from_offset, size_bytes_max, now_ms)
        case CaughtUp():
            pass
        case _:
            assert_never(step)
    return 0


def make_same(source: PartitionLog, future: PartitionLog) -> None:
    """The last step, when both logs hold the same batches: what does not follow from them alone.

    Compaction and retention may have removed what the source has learnt its producers and epochs
    from. Call it in the same step as `close`.
    """
    assert isinstance(next_step(source, future), CaughtUp), (source.directory, future.directory)
    future.take_over(source)


def _copy(
    source: PartitionLog, future: PartitionLog, offset: Offset, size_bytes_max: int, now_ms: int
) -> int:
    """One read and one write of the same memory."""
    found = source.read(
        ReadBounds(
            from_offset=offset,
            until_offset=source.end_offset,
            size_bytes_max=size_bytes_max,
            oversized_first=True,
            whole_batches=True,
        )
    )
    if found.span is None:
        # Compaction has taken all that there was up to the end.
        future.pass_over(source.end_offset, now_ms=now_ms)
        return 0
    # Recovery takes gaps below it for those that compaction has left.
    future.cleaned_offset = source.cleaned_offset
    view = memoryview(bytearray(found.span.byte_count))
    count = found.span.file.read_into(found.span.position, view)
    future.append_run(view[:count], leader_epoch=ANY_EPOCH, now_ms=now_ms)
    assert future.end_offset > offset, "a whole batch at least"
    return count


def _agreed_offset(source: Extent, future: Extent) -> Offset:
    """Up to where the future log is a copy of its source, by the epoch of its last record; as a
    follower finds it (KIP-101, KIP-279), in rounds.
    """
    latest = future.epochs.latest
    if latest is None:
        return min(future.end_offset, source.end_offset)  # empty, or of old message formats
    found = source.epochs.end_of(latest, end_offset=source.end_offset)
    if found is None:
        # The source has no record of this epoch any more.
        if source.epochs.latest is None:
            return source.start_offset
        own = future.epochs.end_of(source.epochs.latest, end_offset=future.end_offset)
        assert own is not None, "its latest epoch is a later one"
        return min(source.end_offset, own.end_offset)
    if found.leader_epoch == latest:
        return min(found.end_offset, future.end_offset)
    own = future.epochs.end_of(found.leader_epoch, end_offset=future.end_offset)
    assert own is not None, "its latest epoch is a later one"
    return min(found.end_offset, own.end_offset)

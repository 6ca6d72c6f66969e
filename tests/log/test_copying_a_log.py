"""A copy of a log in another directory ends up as its source is, whatever happens to the source."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.copying import (
    CaughtUp,
    Copy,
    Cut,
    RaiseStart,
    Restart,
    make_same,
    next_step,
    take_step,
)
from penstock.log.partition_log import PartitionLog
from penstock.model.offset import LeaderEpoch, Offset
from rig.logs import NOW_MS, append, open_log, values
from rig.memory_disk import MemoryDisk

STEPS_MAX = 1_000


def two_logs() -> tuple[PartitionLog, PartitionLog]:
    disk = MemoryDisk()
    return open_log(disk, "/a").log, open_log(disk, "/b").log


def step(source: PartitionLog, future: PartitionLog, size_bytes_max: int = 500) -> None:
    take_step(
        next_step(source, future), source, future, size_bytes_max=size_bytes_max, now_ms=NOW_MS
    )


def catch_up(source: PartitionLog, future: PartitionLog) -> None:
    for _ in range(STEPS_MAX):
        if isinstance(next_step(source, future), CaughtUp):
            return
        step(source, future)
    raise AssertionError(f"no end of steps: {next_step(source, future)}")


def test_batches_are_copied_in_order() -> None:
    source, future = two_logs()
    for count in (3, 1, 4):
        append(source, count)
    assert next_step(source, future) == Copy(from_offset=Offset(0))
    catch_up(source, future)
    assert values(future) == values(source)


def test_what_the_source_has_cut_off_is_cut_off() -> None:
    source, future = two_logs()
    for _ in range(4):
        append(source, 2, epoch=1)
    catch_up(source, future)
    source.truncate_to(Offset(4))
    assert next_step(source, future) == Cut(offset=Offset(4))
    append(source, 4, epoch=2)  # the same end as before, with other records
    assert source.end_offset == future.end_offset
    assert next_step(source, future) == Cut(offset=Offset(4))
    catch_up(source, future)
    assert [one.leader_epoch for one in future.batches_from(Offset(0))] == [1, 1, 2]


def test_what_was_deleted_at_the_start_is_deleted() -> None:
    source, future = two_logs()
    for _ in range(6):
        append(source, 2)
    catch_up(source, future)
    source.advance_start(Offset(5))
    assert next_step(source, future) == RaiseStart(offset=Offset(5))
    catch_up(source, future)
    assert future.start_offset == 5
    assert values(future) == values(source)


def test_a_copy_that_was_overtaken_by_deletion_begins_anew() -> None:
    source, future = two_logs()
    append(source, 2)
    catch_up(source, future)
    append(source, 9)
    source.advance_start(Offset(5))
    assert next_step(source, future) == Restart(offset=Offset(5))
    catch_up(source, future)
    assert (future.start_offset, future.end_offset) == (5, 11)
    assert values(future) == values(source)


def test_a_gap_at_the_end_is_passed_over() -> None:
    """Compaction has taken the last records, and a new segment begins behind them."""
    source, future = two_logs()
    append(source, 2)
    source.pass_over(Offset(9), now_ms=NOW_MS)
    catch_up(source, future)
    assert future.end_offset == 9
    append(source, 1)
    catch_up(source, future)
    assert future.end_offset == 10


def test_producers_and_epochs_that_do_not_follow_from_the_batches_are_taken_over() -> None:
    source, future = two_logs()
    append(source, 2, epoch=1, producer=7)
    source.roll()
    append(source, 2, epoch=1, producer=8)
    source.advance_start(Offset(2))
    source.begin_epoch(LeaderEpoch(5))  # nothing is written in it yet
    catch_up(source, future)
    assert 7 not in future.producers.by_id  # its records are deleted; the source remembers it
    make_same(source, future)
    assert future.producers.by_id.keys() == {7, 8}
    assert future.epochs.entries == source.epochs.entries


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_copy_ends_as_its_source(seed: int) -> None:
    chance = random.Random(seed)
    source, future = two_logs()
    epoch = 0
    for _ in range(chance.randrange(5, 40)):
        match chance.randrange(7):
            case 0 | 1 | 2:
                append(source, chance.randrange(1, 5), epoch=epoch, producer=7)
            case 3:
                epoch += 1
                low = chance.randrange(source.start_offset, source.end_offset + 1)
                source.truncate_to(Offset(low))
            case 4:
                offset = chance.randrange(source.start_offset, source.end_offset + 1)
                source.advance_start(Offset(offset))
            case _:
                for _ in range(chance.randrange(4)):
                    step(source, future, size_bytes_max=chance.randrange(1, 900))
        future.check()
    catch_up(source, future)
    assert (future.start_offset, future.end_offset) == (source.start_offset, source.end_offset)
    assert list(map(bytes_of, future.batches_from(future.start_offset))) == list(
        map(bytes_of, source.batches_from(source.start_offset))
    )
    make_same(source, future)
    future.check()


def bytes_of(batch: object) -> bytes:
    return bytes(batch.view)  # type: ignore[attr-defined]

"""Cutting the log back, at its end and at its start."""

import asyncio
import random
from contextlib import suppress

import pytest

from penstock.log.errors import CorruptSnapshot
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_replay import BATCHES_PER_STEP
from penstock.log.producer_snapshot import decode_snapshot
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, Opened, append, make_batch, open_log, values
from rig.memory_disk import Crashed, MemoryDisk

CALLS_MAX = 200


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def log(disk: MemoryDisk) -> PartitionLog:
    """Batches of two records in several segments, under epochs 0 to 4, by producer 7."""
    log = open_log(disk).log
    for number in range(50):
        append(log, 2, epoch=number // 10, producer=7)
    assert len(log.segments) > 5
    return log


@pytest.mark.parametrize("offset", [1, 2, 13, 14, 50, 98, 99])
def test_what_reaches_the_offset_is_gone_and_all_before_it_stays(
    log: PartitionLog, offset: int
) -> None:
    log.truncate_to(Offset(offset))
    log.check()
    kept = offset // 2 * 2
    assert values(log) == [(o, str(o).encode()) for o in range(kept)]
    if kept:
        assert log.producers.by_id[7].batches[-1].last_offset == kept - 1  # type: ignore[index]
        assert log.epochs.latest == (kept - 1) // 20


def test_every_offset_can_be_cut_to_and_written_on_from(disk: MemoryDisk) -> None:
    log = open_log(disk).log
    for number in range(40):
        append(log, 3)
        if number % 3 == 2:
            log.truncate_to(Offset(log.end_offset - 4))
        log.check()
    assert values(log) == [(o, str(o).encode()) for o in range(log.end_offset)]
    log.abandon()
    assert open_log(disk).log.end_offset == log.end_offset


def test_truncation_beyond_the_end_changes_nothing(log: PartitionLog) -> None:
    log.truncate_to(Offset(100))
    assert log.end_offset == 100


def test_truncation_at_the_end_cuts_an_epoch_without_records(log: PartitionLog) -> None:
    """Else a follower would name that epoch for ever, and its leader answer the same for ever."""
    log.begin_epoch(LeaderEpoch(7))
    log.truncate_to(log.end_offset)
    assert log.epochs.latest == 4
    assert log.end_offset == 100


def test_epochs_after_a_kill_are_those_of_the_log_though_their_file_is_older_than_a_cut(
    disk: MemoryDisk,
) -> None:
    opened = open_log(disk)
    append(opened.log, 10, epoch=4)
    append(opened.log, 5, epoch=5)
    opened.log.sync()
    opened.directory.save_checkpoints()
    opened.log.truncate_to(Offset(10))
    append(opened.log, 3, epoch=4)
    append(opened.log, 2, epoch=6)
    before = opened.log.epochs.entries
    after = open_log(disk.after_kill()).log.epochs.entries
    assert after == before
    assert [(entry.epoch, entry.start_offset) for entry in after] == [(4, 0), (6, 13)]


def test_recovery_point_on_disk_goes_down_before_anything_is_cut(disk: MemoryDisk) -> None:
    opened = open_log(disk)
    for _ in range(30):
        append(opened.log, 2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    opened.log.truncate_to(Offset(10))
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 10\n"
    assert opened.log.recovery_point == 10


def test_sync_under_way_during_a_truncation_covers_only_what_was_left(
    disk: MemoryDisk, log: PartitionLog
) -> None:
    end_offset = log.end_offset
    files = log.unsynced_files()
    log.truncate_to(Offset(40))
    while log.end_offset < end_offset:
        append(log, 2)
    asyncio.run(disk.sync(files))
    log.mark_synced(end_offset)
    assert log.recovery_point == 40


def test_log_emptied_to_a_later_offset_begins_there(disk: MemoryDisk, log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(Offset(1000))
    log.check()
    append(log, 2, epoch=9)
    assert values(log) == [(1000, b"1000"), (1001, b"1001")]
    again = open_log(disk.after_kill()).log
    assert (again.start_offset, again.end_offset) == (1000, 1002)
    assert [(e.epoch, e.start_offset) for e in again.epochs.entries] == [(9, 1000)]


def test_log_emptied_to_an_earlier_offset_begins_there(disk: MemoryDisk) -> None:
    opened = open_log(disk)
    opened.log.truncate_fully_and_start_at(Offset(500))
    for _ in range(5):
        append(opened.log, 2)
    opened.log.truncate_to(Offset(100))
    opened.log.check()
    append(opened.log)
    assert values(open_log(disk.after_kill()).log) == [(100, b"100")]


def test_start_moves_up_and_whole_segments_below_it_are_deleted(
    disk: MemoryDisk, log: PartitionLog
) -> None:
    start = log.segments[3].base_offset + 3
    log.advance_start(Offset(start))
    log.check()
    assert log.segments[0].base_offset == start - 3
    assert values(log)[0] == (start, str(start).encode())
    assert log.epochs.entries[0].start_offset == start - 1  # of the last deleted record
    names = [name for name in disk.names("/data/orders-0") if name.endswith(".log")]
    assert len(names) == len(log.segments)


def test_start_survives_a_kill(disk: MemoryDisk, log: PartitionLog) -> None:
    log.advance_start(Offset(33))
    again = open_log(disk.after_kill()).log
    assert again.start_offset == 33


def test_start_at_the_end_leaves_an_empty_log_that_goes_on(
    disk: MemoryDisk, log: PartitionLog
) -> None:
    log.advance_start(log.end_offset)
    log.check()
    assert values(log) == []
    append(log)
    again = open_log(disk.after_kill()).log
    assert values(again) == [(100, b"100")]


def test_start_never_goes_back(log: PartitionLog) -> None:
    log.advance_start(Offset(50))
    log.advance_start(Offset(20))
    assert log.start_offset == 50


@pytest.mark.parametrize("offset", [0, 5, 20, 41])
@pytest.mark.parametrize("compacted", [False, True])
def test_power_lost_at_any_call_of_a_truncation_over_segments_leaves_no_hole(
    offset: int, compacted: bool
) -> None:
    """Of the segments that go, a power loss may bring back any; compaction leaves gaps, too."""
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        disk.make_directory("/data")
        disk.sync_directory("/")
        opened = open_log(disk)
        while len(opened.log.segments) < 6:
            append(opened.log, 3, epoch=opened.log.end_offset // 10, producer=7)
        opened.log.sync()
        opened.log.cleaned_offset = opened.log.segments[-1].base_offset if compacted else None
        opened.directory.save_checkpoints()
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            opened.log.truncate_to(Offset(offset))
        except Crashed:
            pass
        else:
            assert crash_at > 20
            return
        for seed in range(10):
            log = open_log(disk.after_power_loss(random.Random(crash_at * 100 + seed))).log
            log.check()
            found = [one for one, _ in values(log)]
            assert found == list(range(log.start_offset, log.end_offset))
            assert log.end_offset >= offset // 3 * 3
    pytest.fail(f"the truncation takes more than {CALLS_MAX} calls")


def test_a_truncation_leaves_an_index_in_memory_without_reading_the_segment_again(
    disk: MemoryDisk,
) -> None:
    log = open_log(disk).log
    for _ in range(40):
        append(log, 2)
    kept = log.segments[1]
    before = kept.indexes.offset.encode()
    log.truncate_to(log.segments[2].base_offset)
    assert log.segments[-1] is kept
    assert before.startswith(kept.indexes.offset.encode())
    assert not disk.exists(kept.path(".index"))


def test_killed_while_a_log_is_emptied_below_its_start_deleted_records_stay_deleted() -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        append(log, 4)
        append(log, 4)
        log.advance_start(Offset(5))
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            log.truncate_to(Offset(0))
        except Crashed:
            assert all(offset >= 5 for offset, _ in values(open_log(disk.after_kill()).log))
        else:
            assert (log.start_offset, log.end_offset) == (0, 0)
            return
    pytest.fail(f"the truncation takes more than {CALLS_MAX} calls")


@pytest.mark.parametrize(("start", "offset"), [(0, 0), (3, 0), (3, 2), (3, 3)])
def test_power_lost_while_a_log_is_emptied_does_not_move_its_start(start: int, offset: int) -> None:
    """Its segments were not synced yet; one that is back alone is not taken for all of the log."""
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        append(log, 4)
        log.roll()
        append(log, 4)
        log.roll()
        append(log, 4)
        if start:
            log.advance_start(Offset(start))
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            log.truncate_to(Offset(offset))
        except Crashed:
            for seed in range(16):
                again = open_log(disk.after_power_loss(random.Random(seed))).log
                assert again.start_offset in (start, offset), (crash_at, seed)
        else:
            break
    assert 9 < crash_at < CALLS_MAX - 1


def test_epochs_of_a_log_that_was_emptied_are_not_back_after_a_kill(disk: MemoryDisk) -> None:
    opened = open_log(disk)
    append(opened.log, 10, epoch=4)
    opened.log.sync()
    opened.log.truncate_fully_and_start_at(Offset(15))
    append(opened.log, 3, epoch=2)  # of a leader that was elected uncleanly, say
    again = open_log(disk.after_kill()).log
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(2, 15)]


@pytest.mark.parametrize("power_loss", [None, *range(16)])
def test_the_epoch_below_the_start_survives_a_crash_in_a_cut_to_the_start(
    power_loss: int | None,
) -> None:
    """Records below the start are lost in it if they were not synced. The epoch of the last one is
    known if the producers are; no older one is: it would have the log cut below its start.
    """
    kept = 0
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        append(log, 2, epoch=1, producer=7)
        append(log, 6, epoch=2, producer=7)
        log.roll()
        append(log, 2, epoch=3, producer=7)
        append(log, 2, epoch=5, producer=7)
        log.advance_start(Offset(11))
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            log.truncate_to(Offset(11))
        except Crashed:
            left = left_by(disk, power_loss)
            is_kept = is_snapshot(left, "/data/orders-0/00000000000000000011.snapshot")
            latest = open_log(left).log.epochs.latest
            assert latest == 5 or (latest is None and not is_kept), crash_at
            kept += is_kept
        else:
            break
    assert 12 < crash_at < CALLS_MAX - 1
    assert kept > 5


def is_snapshot(disk: MemoryDisk, path: str) -> bool:
    """Whether there is one that can be read."""
    with suppress(CorruptSnapshot):
        return disk.exists(path) and bool(decode_snapshot(disk.read(path)))
    return False


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("power_loss", [None, *range(8)])
def test_the_epoch_below_the_start_survives_a_crash_as_a_first_batch_comes_from_below_it(
    power_loss: int | None, is_cut: bool
) -> None:
    """The log is empty since it was cut to its start, or since all of it was deleted."""
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        append(log, 2, epoch=1)
        append(log, 4, epoch=2)
        log.sync()
        log.advance_start(Offset(4 if is_cut else 6))
        log.truncate_to(log.start_offset)
        log.sync()
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            run = make_batch(log.start_offset - 1, 3, epoch=2).view
            log.append_run(run, leader_epoch=LeaderEpoch(2), now_ms=NOW_MS)
        except Crashed:
            again = open_log(left_by(disk, power_loss)).log
            assert again.epochs.latest == 2, crash_at
        else:
            break
    assert 9 < crash_at < CALLS_MAX - 1


def left_by(disk: MemoryDisk, power_loss: int | None) -> MemoryDisk:
    """After a kill, or a loss of power by a seed."""
    if power_loss is None:
        return disk.after_kill()
    return disk.after_power_loss(random.Random(power_loss))


def stopped_once(disk: MemoryDisk, *, times: int) -> Opened:
    """A log of one batch, as a clean stop left it, opened again."""
    opened = open_log(disk)
    opened.log.append([make_batch(0, timestamp_ms=times)], now_ms=NOW_MS)
    opened.directory.close()
    return open_log(disk)


def without_holes(disk: MemoryDisk) -> bool:
    """Whether a power loss, whatever it takes, leaves a log whose batches follow each other."""
    for seed in range(120):
        log = open_log(disk.after_power_loss(random.Random(seed))).log
        if [offset for offset, _ in values(log)] != list(range(log.end_offset)):
            return False
    return True


def test_no_record_that_was_cut_off_is_back_among_later_ones_after_a_power_loss() -> None:
    """The segment goes on with records of the same size, and another one follows."""
    disk = MemoryDisk()
    log = open_log(disk).log
    append(log, epoch=1)
    append(log, epoch=1)
    log.sync()
    log.truncate_to(Offset(1))
    while len(log.segments) == 1:
        append(log, epoch=2)
    for seed in range(300):
        left = open_log(disk.after_power_loss(random.Random(seed))).log
        epochs = [batch.leader_epoch for batch in left.batches_from(Offset(0))]
        assert epochs == ([1] + [2] * len(epochs))[: len(epochs)]


@pytest.mark.parametrize("calls", range(12))
def test_segment_that_grew_after_a_truncation_was_cut_short_leaves_no_hole(calls: int) -> None:
    """The recovery point is lowered, nothing is cut; the index of the stop speaks of one batch."""
    disk = MemoryDisk()
    opened = stopped_once(disk, times=NOW_MS)
    disk.faults.crash_at = disk.faults.calls + calls
    with suppress(Crashed):
        opened.log.truncate_to(Offset(0))
    disk = disk.after_kill()
    log = open_log(disk).log
    for _ in range(15):
        append(log)
    assert len(log.segments) > 1
    assert without_holes(disk)


def test_segment_that_grew_with_older_timestamps_leaves_no_hole() -> None:
    """The index of the stop has the largest timestamp of the segment also after it has grown."""
    disk = MemoryDisk()
    log = stopped_once(disk, times=NOW_MS + 10_000).log
    append(log)
    log.sync()
    for _ in range(15):
        append(log)
    assert len(log.segments) > 1
    assert without_holes(disk)


@pytest.mark.parametrize("offset", [0, 1, 4, 13, 50, 98])
def test_truncation_that_fails_on_a_full_disk_has_changed_nothing(offset: int) -> None:
    """Any other failure, or one in the midst of it, is the end of the directory."""
    for calls in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = open_log(disk)
        for number in range(50):
            append(opened.log, 2, epoch=number // 10, producer=7)
        opened.log.sync()
        opened.log.advance_start(Offset(3))
        opened.log.note_watermark(Offset(90))
        opened.directory.save_checkpoints()
        log, before = opened.log, values(opened.log)
        disk.faults.fail_at = disk.faults.calls + calls
        try:
            log.truncate_to(Offset(offset))
        except DiskError as error:
            if error.full:
                log.check()
                assert values(log) == before
                log.truncate_to(Offset(offset))
                log.check()
                append(log, 2, epoch=5, producer=7)
                assert values(log)[:-2] == before[: len(values(log)) - 2]
        else:
            break
    assert 5 < calls < CALLS_MAX - 1


def test_epochs_that_a_failed_cut_took_from_their_file_are_stored_again() -> None:
    """It failed for want of room when the new file had the name already."""
    for calls in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = open_log(disk)
        append(opened.log, 2, epoch=1)
        append(opened.log, 2, epoch=2)
        opened.log.roll()
        append(opened.log, 2, epoch=2)
        opened.log.sync()
        opened.directory.save_checkpoints()
        disk.faults.fail_at = disk.faults.calls + calls
        try:
            opened.log.truncate_to(Offset(2))
        except DiskError as error:
            if error.full:
                opened.log.sync()
                opened.directory.save_checkpoints()
                again = open_log(disk.after_kill()).log
                found = [(one.epoch, one.start_offset) for one in again.epochs.entries]
                assert found == [(1, 0), (2, 2)], calls
        else:
            break
    assert 5 < calls < CALLS_MAX - 1


def test_epochs_that_a_failed_sync_left_in_their_file_are_cut_off() -> None:
    """As above: the file is the new one, or the old one."""
    for calls in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        append(log, 2, epoch=1)
        append(log, 2, epoch=2)
        disk.faults.fail_at = disk.faults.calls + calls
        try:
            log.sync()
        except DiskError as error:
            assert error.full
            log.truncate_to(Offset(2))
            path = "/data/orders-0/leader-epoch-checkpoint"
            stored = disk.read(path) if disk.exists(path) else b""
            assert b"2 2" not in stored, calls
        else:
            break
    assert 5 < calls < CALLS_MAX - 1


@pytest.fixture
def long_log(disk: MemoryDisk) -> PartitionLog:
    """More batches than one step of a replay takes."""
    log = open_log(disk, settings=TopicSettings(segment_bytes=60_000)).log
    for number in range(3 * BATCHES_PER_STEP):
        append(log, epoch=number // 400, producer=number % 7)
    assert len(log.segments) > 2
    return log


def test_long_truncation_is_prepared_in_steps_and_gives_the_same(long_log: PartitionLog) -> None:
    offset = Offset(long_log.segments[-1].base_offset - 3)
    cut = long_log.prepare_cut(offset)
    steps = 1
    while not cut.step():
        steps += 1
    assert steps > 1
    long_log.truncate_to(offset, cut=cut)
    long_log.check()
    assert long_log.end_offset == offset
    for producer in range(7):
        last = long_log.producers.by_id[producer].batches[-1].last_offset  # type: ignore[index]
        assert offset - 7 <= last < offset


def test_truncation_begins_anew_when_segments_change_while_it_is_prepared(
    long_log: PartitionLog,
) -> None:
    offset = Offset(long_log.segments[-1].base_offset - 3)
    cut = long_log.prepare_cut(offset)
    cut.step()
    long_log.advance_start(long_log.segments[1].base_offset)
    append(long_log, producer=3)
    while not cut.step():
        pass
    long_log.roll()
    assert cut.is_valid
    long_log.truncate_to(offset, cut=cut)
    long_log.check()
    assert len(long_log.producers.by_id) == 7


def test_truncation_of_a_log_without_producers_reads_none_of_what_stays(disk: MemoryDisk) -> None:
    log = open_log(disk, settings=TopicSettings()).log
    for _ in range(300):
        append(log)
    reads = disk.reads
    log.truncate_to(Offset(298))
    assert disk.reads - reads < 10

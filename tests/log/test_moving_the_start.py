"""DeleteRecords: the start moves for good or not at all, and a retry does what is left."""

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest

from penstock.log.directory import LogDirectory
from penstock.log.layout import LOG, segment_path
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.layout import MAGIC_POSITION
from penstock.world.errors import DiskError
from rig.logs import (
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    Opened,
    append,
    make_batch,
    open_log,
    values,
)
from rig.memory_disk import Crashed, MemoryDisk

OTHER = TopicPartition("orders", 1)
START = Offset(35)
SIGN_BYTE = 0  # of the base offset of a batch


def filled(disk: MemoryDisk) -> Opened:
    opened = open_log(disk)
    opened.directory.open_log(OTHER, TOPIC_ID, SMALL, now_ms=NOW_MS)
    for log in opened.directory.logs.values():
        for _ in range(40):
            append(log)
    opened.directory.save_checkpoints()
    return opened


def one(directory: LogDirectory) -> None:
    directory.logs[PARTITION].advance_start(START)


def many(directory: LogDirectory) -> None:
    directory.advance_starts({PARTITION: START, OTHER: Offset(0)})


MOVES = pytest.mark.parametrize("move", [one, many])


@MOVES
def test_on_a_full_disk_the_start_stays_until_there_is_room(
    move: Callable[[LogDirectory], None],
) -> None:
    disk = MemoryDisk()
    opened = filled(disk)
    segments = len(opened.log.segments)
    disk.faults.full = True
    for _ in range(2):
        with pytest.raises(DiskError):
            move(opened.directory)
        assert opened.log.start_offset == 0
        assert len(opened.log.segments) == segments
    disk.faults.full = False
    move(opened.directory)
    assert opened.log.segments[0].base_offset > 0
    again = open_log(disk.after_kill()).log
    assert again.start_offset == START
    assert [offset for offset, _ in values(again)] == list(range(START, 40))


@MOVES
def test_whichever_call_fails_a_retry_moves_the_start_and_it_stays_there(
    move: Callable[[LogDirectory], None],
) -> None:
    for fail_at in range(200):
        disk = MemoryDisk()
        opened = filled(disk)
        disk.faults.calls, disk.faults.fail_at = 0, fail_at
        try:
            move(opened.directory)
            failed = False
        except DiskError:
            failed = True
            disk.faults.fail_at = None
            move(opened.directory)
        opened.log.check()
        assert opened.log.start_offset == START
        assert opened.log.segments[1:] == [] or opened.log.segments[1].base_offset > START
        assert open_log(disk.after_kill()).log.start_offset == START
        if not failed and disk.faults.calls <= fail_at:
            return
    pytest.fail("moving the start takes more than 200 calls")


def test_deleted_segments_stay_for_the_delay_under_another_name() -> None:
    disk = MemoryDisk()
    opened = filled(disk)
    opened.log.reconfigure(TopicSettings(segment_bytes=1000, file_delete_delay_ms=1000))
    opened.log.advance_start(START)
    deleted = [path for path in disk.files if path.endswith(".deleted")]
    assert deleted
    opened.directory.take_removable(now_ms=NOW_MS)
    assert opened.directory.take_removable(now_ms=NOW_MS + 999) == []
    assert sorted(opened.directory.take_removable(now_ms=NOW_MS + 1000)) == sorted(deleted)


def test_cut_within_a_batch_lowers_the_recovery_point_on_disk_to_where_the_log_ends() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 3)
    append(opened.log, 5)
    opened.log.sync()
    opened.directory.save_checkpoints()
    opened.log.truncate_to(Offset(6))
    assert opened.log.end_offset == 3
    lines = disk.read("/data/recovery-point-offset-checkpoint").decode().splitlines()
    assert lines[2:] == ["orders 0 3"]


def test_the_epoch_of_the_last_deleted_record_survives_a_kill() -> None:
    """The file of epochs is older than the record, and no segment is left that has it."""
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    append(opened.log, 10, epoch=3)
    opened.log.roll()
    opened.log.advance_start(Offset(20))
    assert [segment.base_offset for segment in opened.log.segments] == [20]
    again = open_log(disk.after_kill()).log
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(3, 19)]


def test_the_epoch_of_the_last_deleted_record_survives_a_kill_before_its_segment_has_gone() -> None:
    """The next start removes the segment, and may be killed as well."""
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    append(opened.log, 5, epoch=3)
    opened.log.roll()
    append(opened.log, 5, epoch=4)
    opened.log.roll()
    append(opened.log, 5, epoch=5)
    opened.directory.move_starts({PARTITION: Offset(20)})
    for _ in range(2):
        disk = disk.after_kill()
        again = open_log(disk).log
        assert [segment.base_offset for segment in again.segments] == [20]
        assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(4, 19), (5, 20)]


@pytest.mark.parametrize("synced_until", [10, 25])
@pytest.mark.parametrize("content", [b"", b"0\n1\n"])
def test_the_epoch_of_the_last_deleted_record_survives_damage_of_the_file_of_epochs(
    content: bytes, synced_until: int
) -> None:
    """Its segment has not gone: a kill came before that."""
    disk = MemoryDisk()
    opened = open_log(disk)
    for epoch, count in ((2, 10), (3, 5), (4, 5), (5, 5)):
        append(opened.log, count, epoch=epoch)
        if epoch > 2:
            opened.log.roll()
        if opened.log.end_offset == synced_until:
            opened.log.sync()
            opened.directory.save_checkpoints()
    opened.directory.move_starts({PARTITION: Offset(20)})
    disk = disk.after_kill()
    disk.files["/data/orders-0/leader-epoch-checkpoint"].data[:] = content
    for _ in range(2):
        again = open_log(disk)
        assert [segment.base_offset for segment in again.log.segments] == [20, 25]
        found = again.log.epochs.entries
        assert [(one.epoch, one.start_offset) for one in found] == [(4, 19), (5, 20)]
        again.directory.close()
        disk = disk.after_kill()


@pytest.mark.parametrize(("damaged", "is_stored"), [(0, False), (0, True), (15, True)])
def test_the_epoch_of_the_last_deleted_record_survives_damage_in_a_segment_that_has_not_gone(
    damaged: int, is_stored: bool
) -> None:
    """What was stored is known, and what another segment has can be read."""
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    append(opened.log, 5, epoch=3)
    opened.log.roll()
    append(opened.log, 5, epoch=4)
    opened.log.roll()
    append(opened.log, 5, epoch=5)
    if is_stored:
        opened.log.sync()  # the checkpoint of its recovery point comes later
    opened.directory.move_starts({PARTITION: Offset(20)})
    disk = disk.after_kill()
    damage(disk, damaged)
    again = open_log(disk).log
    assert [segment.base_offset for segment in again.segments] == [20]
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(4, 19), (5, 20)]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("damaged", [10, 15, 20])
@pytest.mark.parametrize("byte", [SIGN_BYTE, SIGN_BYTE + 2])
def test_the_epoch_of_the_last_deleted_record_survives_damage_of_an_offset(
    byte: int, damaged: int, is_stored: bool
) -> None:
    """No checksum covers it. It may be that of a batch which has not gone, or which stays."""
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    for epoch in (3, 4, 4):
        opened.log.roll()
        append(opened.log, 2, epoch=epoch)
        append(opened.log, 3, epoch=epoch)
    if is_stored:
        opened.log.sync()  # the checkpoint of its recovery point comes later
    opened.directory.move_starts({PARTITION: Offset(20)})
    disk = disk.after_kill()
    damage(disk, damaged, byte)
    again = open_log(disk).log
    assert (again.start_offset, again.end_offset) == (20, 20 if damaged == 20 else 25)
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(4, 19)]


@pytest.mark.parametrize("byte", [SIGN_BYTE, SIGN_BYTE + 2])
def test_epochs_are_rebuilt_in_spite_of_damage_of_an_offset(byte: int) -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 5, epoch=2)
    append(opened.log, 5, epoch=2)
    opened.log.roll()
    append(opened.log, 5, epoch=3)
    opened.directory.close()
    disk.remove("/data/orders-0/leader-epoch-checkpoint")
    damage(disk, 0, byte)
    again = open_log(disk).log
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(2, 5), (3, 10)]


def test_a_stored_epoch_of_records_that_were_cut_off_gives_way_to_the_records_that_stay() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.roll()
    append(opened.log, 1, epoch=2)
    append(opened.log, 4, epoch=5)
    opened.log.sync()
    opened.log.truncate_to(Offset(11))
    append(opened.log, 4, epoch=3)
    opened.log.roll()
    append(opened.log, 5, epoch=3)
    opened.directory.move_starts({PARTITION: Offset(15)})
    disk = disk.after_kill()
    damage(disk, 10)
    again = open_log(disk).log
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(2, 14), (3, 15)]


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_stored_epoch_of_records_that_were_cut_off_is_not_that_of_damaged_later_ones(
    is_empty: bool,
) -> None:
    """Nothing can be read of what came in their place, and the leader goes on in its epoch."""
    disk = MemoryDisk()
    opened = with_two_epochs(disk)
    opened.log.truncate_to(Offset(11))
    again = after_damage_of_later_records(disk, opened, is_empty=is_empty)
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(2, 14)]
    run = make_batch(15, 2, epoch=3).view
    assert again.append_run(run, leader_epoch=LeaderEpoch(7), now_ms=NOW_MS) == len(run)


@pytest.mark.parametrize("power_loss", [None, *range(8)])
def test_a_stored_epoch_of_records_that_were_cut_off_is_gone_after_a_crash_in_the_cut(
    power_loss: int | None,
) -> None:
    """A kill, or a loss of power by each of some seeds; the next start finds either the records
    and their epoch, or neither of them.
    """
    for call in itertools.count():
        disk = MemoryDisk()
        opened = with_two_epochs(disk)
        opened.directory.save_checkpoints()
        disk.faults.crash_at = disk.faults.calls + call
        try:
            opened.log.truncate_to(Offset(11))
        except Crashed:
            disk = left_by(disk, power_loss)
            opened = open_log(disk)
            there = [(2, 0), (5, 11)] if opened.log.end_offset == 15 else [(2, 0)]
            found = opened.log.epochs.entries
            assert [(one.epoch, one.start_offset) for one in found] == there, call
            if opened.log.end_offset == 15:
                continue
            again = after_damage_of_later_records(disk, opened, is_empty=True)
            found = again.epochs.entries
            assert [(one.epoch, one.start_offset) for one in found] == [(2, 14)], call
        else:
            break
    assert call > 9


@pytest.mark.parametrize("seed", range(20))
def test_a_stored_epoch_of_records_that_a_power_loss_took_is_not_that_of_damaged_later_ones(
    seed: int,
) -> None:
    """The file of epochs may be ahead of the records that are synced."""
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.roll()
    append(opened.log, 1, epoch=2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    append(opened.log, 1, epoch=2)
    files, end_offset = opened.log.unsynced_files(), opened.log.end_offset
    asyncio.run(disk.sync(files))
    append(opened.log, 3, epoch=5)
    opened.log.mark_synced(end_offset)
    disk = disk.after_power_loss(random.Random(seed))
    opened = open_log(disk)
    if opened.log.end_offset == 15:
        return
    again = after_damage_of_later_records(disk, opened, is_empty=True)
    assert [(one.epoch, one.start_offset) for one in again.epochs.entries] == [(2, 14)]


def with_two_epochs(disk: MemoryDisk) -> Opened:
    """Epoch 2 from 0 and epoch 5 from 11 to 14, synced, in segments from 0 and from 10."""
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.roll()
    append(opened.log, 1, epoch=2)
    append(opened.log, 4, epoch=5)
    opened.log.sync()
    return opened


def after_damage_of_later_records(
    disk: MemoryDisk, opened: Opened, *, is_empty: bool
) -> PartitionLog:
    """Records of epoch 3 up to 14 and a segment that is empty or damaged follow; a kill leaves the
    segment before it, whose first batch is damaged, below the start.
    """
    append(opened.log, 15 - opened.log.end_offset, epoch=3)
    opened.log.roll()
    if not is_empty:
        append(opened.log, 5, epoch=3)
    opened.directory.move_starts({PARTITION: Offset(15)})
    disk = disk.after_kill()
    damage(disk, 10)
    if not is_empty:
        damage(disk, 15)
    again = open_log(disk).log
    assert again.start_offset == again.end_offset == 15
    return again


def left_by(disk: MemoryDisk, power_loss: int | None) -> MemoryDisk:
    """After a kill, or a loss of power by a seed."""
    if power_loss is None:
        return disk.after_kill()
    return disk.after_power_loss(random.Random(power_loss))


def damage(disk: MemoryDisk, base_offset: int, byte: int = MAGIC_POSITION) -> None:
    """A byte of the first batch of a segment."""
    path = segment_path("/data/orders-0", Offset(base_offset), LOG)
    disk.files[path].data[byte] ^= 0x80


def test_on_a_full_disk_segments_go_whose_epochs_cannot_be_saved() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 10, epoch=2)
    opened.log.roll()
    opened.directory.move_starts({PARTITION: Offset(10)})
    disk.faults.full = True
    assert not opened.log.drop_oldest()
    assert [segment.base_offset for segment in opened.log.segments] == [10]
    assert opened.log.epochs.latest == 2

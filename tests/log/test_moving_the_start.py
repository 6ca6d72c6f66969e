"""DeleteRecords: the start moves for good or not at all, and a retry does what is left."""

from collections.abc import Callable

import pytest

from penstock.log.directory import LogDirectory
from penstock.log.layout import LOG, segment_path
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.layout import MAGIC_POSITION
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, PARTITION, SMALL, TOPIC_ID, Opened, append, open_log, values
from rig.memory_disk import MemoryDisk

OTHER = TopicPartition("orders", 1)
START = Offset(35)


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


def damage(disk: MemoryDisk, base_offset: int) -> None:
    """From the first batch of a segment on."""
    path = segment_path("/data/orders-0", Offset(base_offset), LOG)
    disk.files[path].data[MAGIC_POSITION] ^= 0x40


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

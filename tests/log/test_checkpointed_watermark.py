"""The high watermark of a replica outlives a stop, and never speaks of records that are gone."""

import random

import pytest

from penstock.log import layout
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, PARTITION, SMALL, Opened, append, open_log
from rig.memory_disk import Crashed, MemoryDisk

FILE = "/data/replication-offset-checkpoint"
CALLS_MAX = 200


def noted(disk: MemoryDisk, *, end: int = 20, watermark: int = 12) -> Opened:
    opened = open_log(disk)
    while opened.log.end_offset < end:
        append(opened.log, 2)
    opened.log.note_watermark(Offset(watermark))
    return opened


def test_it_is_stored_as_apache_kafka_stores_it() -> None:
    disk = MemoryDisk()
    noted(disk).directory.save_checkpoints()
    assert disk.read(FILE) == b"0\n1\norders 0 12\n"


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_it_is_there_after_a_stop(stop: str) -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    if stop == "clean":
        opened.directory.close()
    else:
        opened.directory.save_checkpoints()
        disk = disk.after_kill()
    again = open_log(disk).log
    assert again.checkpointed_watermark == 12
    again.check()


def test_without_one_a_replica_begins_at_its_start() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.log.advance_start(Offset(6))
    opened.directory.close()
    disk.remove(FILE)
    assert open_log(disk).log.checkpointed_watermark == 6


def test_an_unreadable_file_costs_nothing_but_the_watermarks() -> None:
    disk = MemoryDisk()
    noted(disk).directory.close()
    disk.write_whole(FILE, b"nonsense")
    again = open_log(disk)
    assert again.directory.clean
    assert again.log.checkpointed_watermark == 0


def test_a_partition_without_a_watermark_costs_no_file() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 2)
    opened.directory.save_checkpoints()
    opened.directory.close()
    assert not disk.exists(FILE)


def test_a_watermark_that_has_not_moved_is_not_written_again() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.save_checkpoints()
    disk.remove(FILE)
    opened.log.note_watermark(Offset(12))
    opened.directory.save_checkpoints()
    assert not disk.exists(FILE)


def test_it_is_not_below_the_start() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.save_checkpoints()
    opened.log.advance_start(Offset(16))
    assert opened.log.checkpointed_watermark == 16
    assert open_log(disk.after_kill()).log.checkpointed_watermark == 16


def test_one_beyond_the_end_after_a_power_loss_is_lowered_for_good() -> None:
    """Else it would speak of the records that are written there next."""
    disk = MemoryDisk()
    opened = noted(disk, end=10, watermark=10)
    opened.log.sync()
    for _ in range(5):
        append(opened.log, 2)
    opened.log.note_watermark(Offset(20))
    opened.directory.save_checkpoints()
    lost = [disk.after_power_loss(random.Random(seed)) for seed in range(30)]
    shorter = 0
    for left in lost:
        again = open_log(left)
        end_offset = again.log.end_offset
        shorter += end_offset < 20
        append(again.log, 50)
        third = open_log(left.after_kill()).log
        assert third.end_offset == end_offset + 50
        assert third.checkpointed_watermark == min(20, end_offset)
    assert shorter > 0


@pytest.mark.parametrize("offset", [0, 4, 11, 12, 13, 20])
def test_killed_at_any_call_of_a_truncation_it_is_not_above_what_was_left(offset: int) -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = noted(disk)
        opened.directory.save_checkpoints()
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        crashed = False
        try:
            opened.log.truncate_to(Offset(offset))
            end_offset = opened.log.end_offset
            append(opened.log, 30, epoch=5)  # by another leader, or never to be committed
        except Crashed:
            crashed = True
        again = open_log(disk.after_kill()).log
        if again.epochs.latest == 5:
            assert again.checkpointed_watermark <= min(12, end_offset)
        assert again.checkpointed_watermark <= again.end_offset
        if not crashed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


def test_a_truncation_above_it_writes_no_checkpoint() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.save_checkpoints()
    disk.remove(FILE)
    opened.log.truncate_to(Offset(14))
    assert not disk.exists(FILE)
    assert opened.log.checkpointed_watermark == 12


def test_a_truncation_that_cannot_lower_it_changes_nothing() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.save_checkpoints()
    disk.faults.full = True
    with pytest.raises(DiskError):
        opened.log.truncate_to(Offset(5))
    opened.log.check()
    assert (opened.log.end_offset, opened.log.checkpointed_watermark) == (20, 12)


def test_one_that_moved_since_it_was_stored_is_lowered_too() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.save_checkpoints()
    opened.log.note_watermark(Offset(8))  # a new leader knew no more yet
    opened.log.truncate_to(Offset(10))
    append(opened.log, 30)
    assert open_log(disk.after_kill()).log.checkpointed_watermark <= 10


def test_a_new_topic_of_an_old_name_begins_without_one() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.save_checkpoints()
    opened.directory.delete_partitions({PARTITION: opened.log.topic_id})
    new = opened.directory.open_log(PARTITION, TopicId(bytes(16)[:-1] + b"x"), SMALL, now_ms=NOW_MS)
    append(new, 30)
    assert new.checkpointed_watermark == 0
    assert b"orders" not in disk.read(FILE)


def test_those_of_logs_that_are_not_open_are_kept() -> None:
    disk = MemoryDisk()
    opened = noted(disk)
    opened.directory.close()
    other = TopicPartition("other", 0)
    directory = open_log(disk, "/elsewhere").directory
    assert directory.path != "/data"
    again = opened.directory.open(disk=disk, path="/data")
    again.open_log(other, TopicId(bytes(range(1, 17))), SMALL, now_ms=NOW_MS)
    again.save_checkpoints()
    again.close()
    assert open_log(disk).log.checkpointed_watermark == 12
    assert layout.WATERMARKS in FILE


def test_one_that_grows_is_stored_without_a_sync() -> None:
    """It is done every five seconds, on the event loop."""
    disk = MemoryDisk()
    opened = noted(disk)
    disk.faults.syncs_fail = True
    opened.directory.raise_watermarks()
    assert disk.read(FILE) == b"0\n1\norders 0 12\n"
    assert open_log(disk.after_kill()).log.checkpointed_watermark == 12


def test_one_that_was_stored_without_a_sync_is_lowered_for_good() -> None:
    """Whatever a power loss leaves of the files, it does not speak of records that came later."""
    for seed in range(60):
        disk = MemoryDisk()
        opened = noted(disk)
        opened.directory.save_checkpoints()
        opened.log.note_watermark(Offset(8))  # a new leader knew no more yet
        opened.directory.raise_watermarks()
        opened.log.truncate_to(Offset(10))
        append(opened.log, 30)
        opened.log.sync()
        left = disk.after_power_loss(random.Random(seed))
        assert open_log(left).log.checkpointed_watermark == 8


def test_what_a_power_loss_leaves_of_one_without_a_sync_is_no_higher() -> None:
    found: set[int] = set()
    for seed in range(100):
        disk = MemoryDisk()
        opened = noted(disk)
        opened.directory.save_checkpoints()
        opened.log.sync()
        opened.log.note_watermark(Offset(18))
        opened.directory.raise_watermarks()
        left = disk.after_power_loss(random.Random(seed))
        found.add(open_log(left).log.checkpointed_watermark)
    assert found <= {0, 1, 12, 18}
    assert {12, 18} <= found

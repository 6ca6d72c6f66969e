"""Deleting partitions: gone at once, whatever happens meanwhile, and removed from disk in time."""

import random

import pytest

from penstock.log.directory import LogDirectory, LogWanted
from penstock.log.errors import CorruptCheckpoint
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, PARTITION, SMALL, TOPIC_ID, Opened, append, open_log, values
from rig.memory_disk import Crashed, MemoryDisk

CALLS_MAX = 200
OTHER_ID = TopicId(bytes(16)[:-1] + b"\x09")


def started_late(disk: MemoryDisk) -> Opened:
    """A log of several segments whose start has been moved and saved, all synced."""
    disk.make_directory("/data")
    disk.sync_directory("/")
    opened = open_log(disk)
    for _ in range(40):
        append(opened.log)
    opened.log.sync()
    opened.log.advance_start(Offset(30))
    opened.directory.save_checkpoints()
    return opened


def open_other(directory: LogDirectory) -> None:
    """The next topic of the name; a directory of the one before is put away, as a node does."""
    if directory.partitions_found().get(PARTITION) == TOPIC_ID:
        directory.set_aside_stray(PARTITION)
    log = directory.open_log(PARTITION, OTHER_ID, SMALL, now_ms=NOW_MS)
    assert (log.start_offset, log.end_offset, log.recovery_point) == (0, 0, 0)
    assert values(log) == []


def test_deleted_partition_is_gone_and_its_name_begins_anew() -> None:
    disk = MemoryDisk()
    opened = started_late(disk)
    assert opened.directory.delete_partitions({PARTITION: TOPIC_ID}) == {}
    assert opened.directory.partitions_found() == {}
    open_other(opened.directory)


def test_files_of_a_deleted_partition_go_when_their_delay_is_over() -> None:
    disk = MemoryDisk()
    opened = started_late(disk)
    opened.log.reconfigure(TopicSettings(file_delete_delay_ms=5000))
    opened.directory.delete_partitions({PARTITION: TOPIC_ID})
    opened.directory.take_removable(now_ms=NOW_MS)
    assert not [p for p in opened.directory.take_removable(now_ms=NOW_MS + 4999) if "-delete" in p]
    disk.remove_all(opened.directory.take_removable(now_ms=NOW_MS + 5000))
    assert not [path for path in disk.files if "-delete" in path]


def test_next_start_finishes_a_deletion() -> None:
    disk = MemoryDisk()
    started_late(disk).directory.delete_partitions({PARTITION: TOPIC_ID})
    disk = disk.after_kill()
    again = LogDirectory.open(disk=disk, path="/data")
    assert again.partitions_found() == {}
    disk.remove_all(again.take_removable(now_ms=NOW_MS))
    assert not [path for path in disk.files if "orders" in path]


def test_topic_made_anew_begins_at_zero_whenever_the_deletion_was_cut_off() -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = started_late(disk)
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            opened.directory.delete_partitions({PARTITION: TOPIC_ID})
            crashed = False
        except Crashed:
            crashed = True
        for seed in range(6):
            left = disk.after_kill() if seed == 0 else disk.after_power_loss(random.Random(seed))
            open_other(LogDirectory.open(disk=left, path="/data"))
        if not crashed:
            return
    pytest.fail(f"a deletion takes more than {CALLS_MAX} calls")


def test_topic_made_anew_keeps_what_it_was_told_whenever_a_crash_comes() -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = started_late(disk)
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        acked = synced = 0
        try:
            opened.directory.delete_partitions({PARTITION: TOPIC_ID})
            log = opened.directory.open_log(PARTITION, OTHER_ID, SMALL, now_ms=NOW_MS)
            for _ in range(5):
                append(log)
                acked = log.end_offset
            log.sync()
            synced = log.end_offset
            opened.directory.save_checkpoints()
            crashed = False
        except Crashed:
            crashed = True
        for seed in range(12):
            left = disk.after_kill() if seed == 0 else disk.after_power_loss(random.Random(seed))
            directory = LogDirectory.open(disk=left, path="/data")
            if directory.partitions_found().get(PARTITION) == TOPIC_ID:
                directory.set_aside_stray(PARTITION)
            again = directory.open_log(PARTITION, OTHER_ID, SMALL, now_ms=NOW_MS)
            again.check()
            assert again.start_offset == 0
            assert again.end_offset >= (acked if seed == 0 else synced)
            assert again.end_offset <= 5
            assert values(again) == [(o, str(o).encode()) for o in range(again.end_offset)]
        if not crashed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


def test_deletion_on_a_full_disk_frees_it() -> None:
    disk = MemoryDisk()
    opened = started_late(disk)
    disk.faults.full = True
    assert opened.directory.delete_partitions({PARTITION: TOPIC_ID}) == {}
    opened.directory.take_removable(now_ms=0)
    disk.remove_all(opened.directory.take_removable(now_ms=NOW_MS))
    assert not [path for path in disk.files if "orders" in path]
    with pytest.raises(DiskError):
        opened.directory.open_log(PARTITION, OTHER_ID, SMALL, now_ms=NOW_MS)
    disk.faults.full = False
    open_other(opened.directory)


def test_deletion_that_fails_is_told_and_can_be_asked_for_again() -> None:
    for fail_at in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = started_late(disk)
        disk.faults.calls, disk.faults.fail_at = 0, fail_at
        failed = opened.directory.delete_partitions({PARTITION: TOPIC_ID})
        disk.faults.fail_at = None
        if failed:
            assert opened.directory.delete_partitions({PARTITION: TOPIC_ID}) == {}
        open_other(opened.directory)
        if not failed:
            return
    pytest.fail(f"a deletion takes more than {CALLS_MAX} calls")


def test_partition_that_is_not_open_is_deleted_by_its_topic_id() -> None:
    disk = MemoryDisk()
    started_late(disk).directory.close()
    directory = LogDirectory.open(disk=disk, path="/data")
    assert directory.delete_partitions({PARTITION: OTHER_ID}) == {}
    assert directory.partitions_found() == {PARTITION: TOPIC_ID}
    assert directory.delete_partitions({PARTITION: TOPIC_ID}) == {}
    assert directory.partitions_found() == {}


def test_directory_with_an_unreadable_claim_is_found_refused_and_set_aside() -> None:
    disk = MemoryDisk()
    started_late(disk).directory.close()
    disk.files["/data/orders-0/partition.metadata"].data[:] = b"version: 7\n"
    directory = LogDirectory.open(disk=disk, path="/data")
    assert isinstance(directory.partitions_found()[PARTITION], CorruptCheckpoint)
    wanted = LogWanted(partition=PARTITION, topic_id=TOPIC_ID, settings=SMALL)
    other = LogWanted(partition=TopicPartition("other", 0), topic_id=OTHER_ID, settings=SMALL)
    opened = directory.open_logs([wanted, other], now_ms=NOW_MS)
    assert isinstance(opened[PARTITION], CorruptCheckpoint)
    assert opened[other.partition] is directory.logs[other.partition]
    assert directory.delete_partitions({PARTITION: TOPIC_ID}) == {}
    assert [name for name in disk.names("/data") if name.endswith("-stray")]
    open_other(directory)

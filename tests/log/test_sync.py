"""How what was written comes to last: syncs, the recovery point, and who is to be synced."""

import asyncio

from penstock.log.partition_log import PartitionLog
from rig.logs import append, open_log
from rig.memory_disk import MemoryDisk


def fill(log: PartitionLog, segments: int) -> None:
    while len(log.segments) < segments:
        append(log, 2, producer=7)


def test_recovery_point_moves_with_the_sync_and_not_before() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    fill(log, 3)
    end_offset, files = log.end_offset, log.unsynced_files()
    append(log, 2)
    assert log.recovery_point == 0
    asyncio.run(disk.sync(files))
    log.mark_synced(end_offset)
    assert log.recovery_point == end_offset


def test_log_wants_a_sync_once_a_segment_is_sealed() -> None:
    log = open_log(MemoryDisk()).log
    append(log, 2)
    assert not log.wants_sync
    fill(log, 2)
    assert log.wants_sync
    log.sync()
    assert not log.wants_sync


def test_sealed_segments_are_synced_once() -> None:
    log = open_log(MemoryDisk()).log
    fill(log, 5)
    append(log, 2)
    assert len(log.unsynced_files()) > 10
    log.sync()
    append(log, 2)
    assert [file.path for file in log.unsynced_files()] == [log.segments[-1].path(".log")]


def test_file_sealed_while_a_sync_runs_is_left_for_the_next_one() -> None:
    log = open_log(MemoryDisk()).log
    append(log, 2)
    end_offset, files = log.end_offset, log.unsynced_files()
    log.roll()
    for file in files:
        file.sync()
    log.mark_synced(end_offset)
    index = log.segments[0].path(".index")
    assert index in [file.path for file in log.unsynced_files()]


def test_files_deleted_meanwhile_are_not_asked_for() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    fill(log, 5)
    log.advance_start(log.end_offset)
    assert all(disk.exists(file.path) for file in log.unsynced_files())
    log.truncate_fully_and_start_at(log.end_offset)
    assert [file.path for file in log.unsynced_files()] == [log.segments[0].path(".log")]


def test_nothing_is_left_to_sync_after_a_clean_stop() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    fill(opened.log, 4)
    opened.directory.close()
    assert all(node.synced == bytes(node.data) for node in disk.files.values())

"""A data directory: its lock, its partitions, and how one leaves it."""

import os
from pathlib import Path

import pytest

from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import LogDirectory, write_identity
from penstock.log.errors import TopicIdMismatch
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.world.disk import RealDisk, remove_all
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, PARTITION, SMALL, TOPIC_ID, append, open_log, values
from rig.memory_disk import MemoryDisk

OTHER_ID = TopicId(bytes(16)[:-1] + b"\x09")


def test_directory_is_one_nodes_at_a_time(tmp_path: Path) -> None:
    disk = RealDisk()
    first = LogDirectory.open(disk=disk, path=str(tmp_path))
    with pytest.raises(DiskError):
        LogDirectory.open(disk=disk, path=str(tmp_path))
    first.close()
    LogDirectory.open(disk=disk, path=str(tmp_path)).close()


def test_log_on_the_real_disk_comes_back_after_a_clean_stop_and_after_none(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=4)
    opened = open_log(disk, str(tmp_path))
    for _ in range(60):
        append(opened.log, 2, producer=7)
    opened.directory.close()
    opened = open_log(disk, str(tmp_path))
    assert opened.log.recovery.segments_scanned == 0
    append(opened.log, 2, producer=7)
    opened.directory.abandon()
    again = open_log(disk, str(tmp_path))
    assert again.log.recovery.segments_scanned == 1
    assert values(again.log) == [(o, str(o).encode()) for o in range(122)]
    again.directory.close()


def remove_deleted(directory: LogDirectory) -> None:
    """What a node's housekeeping does, long after every delay."""
    directory.take_removable(now_ms=0)
    remove_all(directory.take_removable(now_ms=10**12))


def test_deleted_segments_give_their_space_back(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc to see which files are open")
    opened = open_log(RealDisk(), str(tmp_path))
    for _ in range(60):
        append(opened.log, 2)
    opened.log.advance_start(Offset(100))
    remove_deleted(opened.directory)
    held = [os.readlink(one) for one in descriptors.iterdir() if one.is_symlink()]
    assert not [path for path in held if path.startswith(str(tmp_path)) and ".deleted" in path]
    assert not list(tmp_path.glob("*/*.deleted"))
    opened.directory.close()


def test_clean_marker_is_what_kafka_writes() -> None:
    disk = MemoryDisk()
    open_log(disk).directory.close(broker_epoch=12)
    assert disk.read("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'


def test_unformatted_directory_has_no_identity() -> None:
    disk = MemoryDisk()
    assert LogDirectory.open(disk=disk, path="/data").identity is None
    identity = DirectoryIdentity(cluster_id="c", node_id=NodeId(4), directory_id=bytes(16))
    write_identity(disk, "/data", identity)
    assert LogDirectory.open(disk=disk, path="/data").identity == identity


def test_partitions_on_disk_are_found_with_their_topic_ids() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    other = TopicPartition("a-b.c_d", 17)
    opened.directory.open_log(other, OTHER_ID, SMALL, now_ms=NOW_MS)
    disk.make_directory("/data/not a partition")
    assert opened.directory.partitions_found() == {PARTITION: TOPIC_ID, other: OTHER_ID}


def test_directory_of_another_topic_is_refused() -> None:
    disk = MemoryDisk()
    open_log(disk).directory.close()
    again = LogDirectory.open(disk=disk, path="/data")
    with pytest.raises(TopicIdMismatch):
        again.open_log(PARTITION, OTHER_ID, SMALL, now_ms=NOW_MS)


def test_stray_is_set_aside_and_kept() -> None:
    disk = MemoryDisk()
    open_log(disk).directory.close()
    again = LogDirectory.open(disk=disk, path="/data")
    path = again.set_aside_stray(PARTITION)
    assert path.endswith("-stray")
    assert again.partitions_found() == {}
    assert disk.exists(f"{path}/partition.metadata")


def test_checkpoints_keep_what_they_say_of_partitions_not_opened() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 9)
    opened.directory.close()
    again = LogDirectory.open(disk=disk, path="/data")
    again.open_log(TopicPartition("other", 0), OTHER_ID, TopicSettings(), now_ms=NOW_MS)
    again.save_checkpoints()
    lines = disk.read("/data/recovery-point-offset-checkpoint").decode().splitlines()
    assert lines[2:] == ["orders 0 9", "other 0 0"]


def test_untouched_log_is_closed_without_a_write() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 9)
    opened.directory.close()
    again = open_log(disk)
    again.log.begin_epoch(LeaderEpoch(4))  # as every start of a node does
    calls = disk.faults.calls
    again.log.close()
    assert disk.faults.calls == calls


def test_recovery_is_added_up_over_all_logs() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    other = TopicPartition("other", 0)
    for log in (opened.log, opened.directory.open_log(other, OTHER_ID, SMALL, now_ms=NOW_MS)):
        append(log, 2)
    again = open_log(disk.after_kill())
    again.directory.open_log(other, OTHER_ID, SMALL, now_ms=NOW_MS)
    assert again.directory.recovery.segments_scanned == 2

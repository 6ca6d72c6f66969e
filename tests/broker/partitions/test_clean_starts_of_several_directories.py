"""A start is clean if every log directory of the node says so."""

import asyncio
import logging

import pytest

from penstock.broker.partitions.log_directories import LogDirectories
from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import LogWanted, write_identity
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, PARTITION, SMALL, TOPIC_ID, append
from rig.memory_disk import MemoryDisk

PATHS = ("/a", "/b")
BOOT = "c0ffee"
EPOCH = 17
OTHER = TopicPartition("other", 0)
OTHER_ID = TopicId(bytes(range(2, 18)))


class StuckDisk(MemoryDisk):
    """Its syncs fail, and so does the removal of files below `stuck`."""

    stuck: tuple[str, ...] = ()

    def remove(self, path: str) -> None:
        if path.startswith(self.stuck):
            raise DiskError(path, "Read-only file system")
        super().remove(path)


def formatted(disk: MemoryDisk) -> MemoryDisk:
    for number, path in enumerate(PATHS):
        identity = DirectoryIdentity(
            cluster_id="c", node_id=NodeId(1), directory_id=bytes([number + 1] * 16)
        )
        write_identity(disk, path, identity)
    return disk


def opened(disk: MemoryDisk, *, paths: tuple[str, ...] = PATHS, boot: str = BOOT) -> LogDirectories:
    directories = LogDirectories.open(
        disk=disk, paths=paths, metadata_path="/a", producer_expiry_ms=1000, boot_id=boot
    )
    asyncio.run(directories.recover(now_ms=NOW_MS))
    return directories


def running(disk: MemoryDisk, *, epoch: int = EPOCH) -> LogDirectories:
    """A broker with this epoch that has written to a partition in each directory."""
    directories = opened(disk)
    directories.note_start(epoch)
    new = {PARTITION: TOPIC_ID, OTHER: OTHER_ID}
    wanted = [
        LogWanted(partition=name, topic_id=topic_id, settings=SMALL)
        for name, topic_id in new.items()
        if directories.log_of(name) is None
    ]
    directories.open_logs(wanted, now_ms=NOW_MS, unheard_of=set(new))
    for log in directories.logs.values():
        append(log, 3)
    return directories


def test_a_kill_is_clean_and_a_start_of_the_machine_is_not() -> None:
    disk = formatted(MemoryDisk())
    running(disk)
    assert opened(disk.after_kill()).clean_epoch == EPOCH
    assert opened(disk.after_kill(), boot="another").clean_epoch is None


def test_a_directory_stopped_cleanly_and_one_that_was_not_agree_on_their_epoch() -> None:
    disk = formatted(MemoryDisk())
    directories = running(disk)
    directories.online["/a"].close(broker_epoch=EPOCH)
    assert opened(disk.after_kill()).clean_epoch == EPOCH


def test_directories_of_different_epochs_are_unclean() -> None:
    disk = formatted(MemoryDisk())
    directories = running(disk)
    directories.online["/a"].note_start(boot_id=BOOT, broker_epoch=EPOCH + 1)
    assert opened(disk.after_kill()).clean_epoch is None


def test_a_new_directory_makes_a_start_unclean() -> None:
    disk = formatted(MemoryDisk())
    running(disk)
    left = disk.after_kill()
    write_identity(
        left, "/c", DirectoryIdentity(cluster_id="c", node_id=NodeId(1), directory_id=b"c" * 16)
    )
    assert opened(left, paths=(*PATHS, "/c")).clean_epoch is None


def test_a_wiped_directory_makes_a_start_unclean() -> None:
    disk = formatted(MemoryDisk())
    running(disk)
    left = disk.after_kill()
    left.remove_tree("/b")
    formatted(left)
    assert opened(left).clean_epoch is None


def test_a_directory_that_is_offline_makes_a_start_unclean() -> None:
    disk = formatted(MemoryDisk())
    running(disk)
    directories = opened(disk.after_kill())
    directories.fail("/b", "gone")
    assert directories.clean_epoch is None


def test_a_failed_sync_makes_the_next_start_unclean() -> None:
    disk = formatted(MemoryDisk())
    directories = running(disk)
    disk.faults.syncs_fail = True
    with pytest.raises(DiskError):
        directories.logs[OTHER].sync()
    disk.faults.syncs_fail = False
    directories.note_start(EPOCH + 1)  # a new registration does not cure it
    assert opened(disk.after_kill()).clean_epoch is None


def test_a_directory_that_has_failed_makes_the_next_start_unclean() -> None:
    disk = formatted(MemoryDisk())
    running(disk).fail("/b", "a read failed")
    assert opened(disk.after_kill()).clean_epoch is None


def test_a_start_file_that_cannot_be_removed_is_made_void_by_another_directory() -> None:
    disk = StuckDisk()
    formatted(disk)
    directories = running(disk)
    disk.stuck = ("/b/penstock-start",)
    directories.fail("/b", "a sync failed")
    assert opened(disk.after_kill()).clean_epoch is None


def test_a_clean_stop_does_not_confirm_a_start_file_that_could_not_be_removed() -> None:
    disk = StuckDisk()
    formatted(disk)
    directories = running(disk)
    disk.stuck = ("/b/penstock-start",)
    directories.io_failed(directories.online["/b"])
    directories.fail("/b", "a sync failed")
    directories.close(broker_epoch=EPOCH)
    left = disk.after_kill()
    assert left.exists("/b/penstock-start")
    assert opened(left).clean_epoch is None


def test_an_operator_is_told_when_no_start_file_can_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = StuckDisk()
    formatted(disk)
    directories = running(disk)
    disk.stuck = ("/a/penstock-start", "/b/penstock-start")
    directories.io_failed(directories.online["/b"])
    [told] = [one for one in caplog.records if one.levelno == logging.CRITICAL]
    assert "start_file=/b/penstock-start removed=false reason=Read-only file system" in told.message


def test_a_stop_before_the_broker_has_an_epoch_leaves_what_it_found() -> None:
    disk = formatted(MemoryDisk())
    running(disk)
    left = disk.after_kill()
    opened(left).close(broker_epoch=-1)
    assert opened(left, boot="another").clean_epoch == EPOCH


def test_logs_of_no_topic_are_set_aside_though_they_are_open() -> None:
    disk = formatted(MemoryDisk())
    running(disk)
    directories = opened(disk.after_kill())
    directories.set_aside_strays({PARTITION: TOPIC_ID, OTHER: TopicId(b"another topic id")})
    assert set(directories.logs) == {PARTITION}
    directories.check()

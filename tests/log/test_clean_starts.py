"""A start tells whether everything is there that the broker before it wrote."""

import random
import shutil
from pathlib import Path

import pytest

from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import LogDirectory, write_identity
from penstock.log.errors import CorruptLog
from penstock.log.partition_log import PartitionLog
from penstock.log.scan import headers
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.world.disk import RealDisk
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, PARTITION, SMALL, TOPIC_ID, append, make_batch
from rig.memory_disk import Crashed, MemoryDisk

BOOT = "c0ffee"
EPOCH = 17
FOLDER = "/data/orders-0"
START = "/data/penstock-start"
CALLS_MAX = 200


def formatted() -> MemoryDisk:
    disk = MemoryDisk()
    identity = DirectoryIdentity(
        cluster_id="c", node_id=NodeId(1), directory_id=bytes(range(1, 17))
    )
    write_identity(disk, "/data", identity)
    return disk


def running(disk: MemoryDisk, *, epoch: int = EPOCH) -> tuple[LogDirectory, PartitionLog]:
    """A broker with this epoch that has written to several segments."""
    directory = LogDirectory.open(disk=disk, path="/data")
    directory.open_found(directory.partitions_found(), now_ms=NOW_MS)
    directory.note_start(boot_id=BOOT, broker_epoch=epoch)
    log = directory.logs.get(PARTITION) or directory.open_log(
        PARTITION, TOPIC_ID, SMALL, now_ms=NOW_MS
    )
    for _ in range(30):
        append(log, 2)
    assert len(log.segments) > 2
    return directory, log


def epoch_after(disk: MemoryDisk, *, boot: str = BOOT) -> int | None:
    """What the next start finds out."""
    directory = LogDirectory.open(disk=disk, path="/data", boot_id=boot)
    directory.open_found(directory.partitions_found(), now_ms=NOW_MS)
    return directory.clean_epoch(boot)


def test_a_kill_loses_nothing_while_the_machine_runs() -> None:
    disk = formatted()
    running(disk)
    assert epoch_after(disk.after_kill()) == EPOCH


@pytest.mark.parametrize("damage", ["a bit", "the end"])
def test_a_log_without_committed_records_is_left_as_it_is_and_the_others_have_lost_nothing(
    damage: str,
) -> None:
    """A kill does not take them, so the disk has: nothing good comes of cutting off the rest."""
    disk = formatted()
    directory, log = running(disk)
    log.note_watermark(Offset(50))
    directory.save_checkpoints()
    left = disk.after_kill()
    if damage == "a bit":
        left.files[f"{FOLDER}/{log.segments[1].base_offset:020d}.log"].data[100] ^= 1
    else:
        for segment in log.segments[2:]:
            del left.files[f"{FOLDER}/{segment.base_offset:020d}.log"]
    before = {path: bytes(node.data) for path, node in left.files.items() if path.endswith(".log")}
    again = LogDirectory.open(disk=left, path="/data", boot_id=BOOT)
    [error] = again.open_found(again.partitions_found(), now_ms=NOW_MS)
    assert isinstance(error, CorruptLog)
    assert "so nothing is truncated" in str(error)
    after = {path: bytes(node.data) for path, node in left.files.items() if path.endswith(".log")}
    assert after == before
    assert again.clean_epoch(BOOT) == EPOCH


@pytest.mark.parametrize("boot", [BOOT, "another"])
@pytest.mark.parametrize("stop", ["clean", "kill"])
@pytest.mark.parametrize("place", [1, -1])
def test_a_log_that_was_left_as_it_is_stays_so_at_later_starts(
    boot: str, stop: str, place: int
) -> None:
    disk = formatted()
    directory, log = running(disk)
    log.note_watermark(log.end_offset)
    directory.save_checkpoints()
    left = disk.after_kill()
    left.files[log.segments[place].file.path].data[100] ^= 1
    before = {path: bytes(node.data) for path, node in left.files.items() if path.endswith(".log")}
    again = LogDirectory.open(disk=left, path="/data", boot_id=BOOT)
    assert len(again.open_found(again.partitions_found(), now_ms=NOW_MS)) == 1
    again.note_start(boot_id=BOOT, broker_epoch=EPOCH + 1)
    if stop == "clean":
        again.close(broker_epoch=EPOCH + 1)
    left = left.after_kill()
    later = LogDirectory.open(disk=left, path="/data", boot_id=boot)
    [error] = later.open_found(later.partitions_found(), now_ms=NOW_MS)
    assert isinstance(error, CorruptLog)
    after = {path: bytes(node.data) for path, node in left.files.items() if path.endswith(".log")}
    assert after == before
    is_clean = boot == BOOT or stop == "clean"
    assert later.clean_epoch(boot) == (EPOCH + 1 if is_clean else None)


def test_no_segment_is_dropped_behind_one_that_lacks_committed_records() -> None:
    disk = formatted()
    directory, log = running(disk)
    log.note_watermark(log.segments[2].base_offset)
    directory.save_checkpoints()
    left = disk.after_kill()
    file = log.segments[1].file
    *_, (position, _) = headers(file, start=0, end=file.size)
    del left.files[file.path].data[position:]
    before = {path: bytes(node.data) for path, node in left.files.items() if path.endswith(".log")}
    again = LogDirectory.open(disk=left, path="/data", boot_id=BOOT)
    [error] = again.open_found(again.partitions_found(), now_ms=NOW_MS)
    assert "expected a segment from offset" in str(error)
    after = {path: bytes(node.data) for path, node in left.files.items() if path.endswith(".log")}
    assert after == before
    assert again.clean_epoch(BOOT) == EPOCH


def test_killed_at_any_call_a_log_that_begins_further_up_has_lost_nothing() -> None:
    """All below its new start is deleted, so nothing can be missing there."""
    for crash_at in range(CALLS_MAX):
        disk = formatted()
        directory, log = running(disk)
        log.note_watermark(Offset(50))
        directory.save_checkpoints()
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        crashed = False
        try:
            log.truncate_fully_and_start_at(Offset(5_000))
        except Crashed:
            crashed = True
        left = disk.after_kill()
        has_segment = any(name.endswith(".log") for name in left.names(FOLDER))
        again = LogDirectory.open(disk=left, path="/data", boot_id=BOOT)
        assert again.open_found(again.partitions_found(), now_ms=NOW_MS) == []
        found = again.logs[PARTITION]
        assert (found.start_offset, found.end_offset) in [(0, 60), (5_000, 5_000)]
        # Without any segment it may have been wiped.
        assert again.clean_epoch(BOOT) == (EPOCH if has_segment else None)
        if not crashed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


def test_a_log_that_a_power_loss_has_cut_below_its_high_watermark_is_opened() -> None:
    disk = formatted()
    directory, log = running(disk)
    log.note_watermark(Offset(50))
    directory.save_checkpoints()
    left = disk.after_kill()
    left.files[f"{FOLDER}/{log.segments[1].base_offset:020d}.log"].data[100] ^= 1
    again = LogDirectory.open(disk=left, path="/data", boot_id="another")
    assert again.open_found(again.partitions_found(), now_ms=NOW_MS) == []
    assert again.logs[PARTITION].end_offset < 50
    assert again.clean_epoch("another") is None


def test_a_clean_stop_is_clean_whatever_became_of_the_machine() -> None:
    disk = formatted()
    directory, _ = running(disk)
    directory.close(broker_epoch=EPOCH)
    assert epoch_after(disk, boot="another") == EPOCH


def test_a_kill_before_the_machine_started_again_is_unclean() -> None:
    disk = formatted()
    running(disk)
    assert epoch_after(disk.after_kill(), boot="another") is None
    assert epoch_after(disk.after_kill(), boot="") is None


def test_a_machine_without_a_boot_id_writes_no_start_file() -> None:
    disk = formatted()
    directory = LogDirectory.open(disk=disk, path="/data")
    directory.note_start(boot_id="", broker_epoch=EPOCH)
    assert not disk.exists(START)


def test_a_new_directory_is_unclean() -> None:
    assert epoch_after(formatted()) is None


def test_a_directory_without_the_file_is_unclean() -> None:
    disk = formatted()
    running(disk)
    disk.remove(START)
    assert epoch_after(disk.after_kill()) is None


def test_the_file_of_another_directory_does_not_count() -> None:
    disk = formatted()
    running(disk)
    identity = DirectoryIdentity(cluster_id="c", node_id=NodeId(1), directory_id=b"z" * 16)
    write_identity(disk, "/data", identity)
    assert epoch_after(disk.after_kill()) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\0" * 90, b'{"version":2}', b'{"version":1,"bootId":"c0ffee"}']
)
def test_a_torn_file_does_not_count(content: bytes) -> None:
    disk = formatted()
    running(disk)
    disk.write_whole(START, content)
    assert epoch_after(disk.after_kill()) is None


def test_a_directory_that_was_restored_from_a_copy_is_unclean(tmp_path: Path) -> None:
    disk, home = RealDisk(), tmp_path / "data"
    identity = DirectoryIdentity(
        cluster_id="c", node_id=NodeId(1), directory_id=bytes(range(1, 17))
    )
    write_identity(disk, str(home), identity)

    def start() -> int | None:
        directory = LogDirectory.open(disk=disk, path=str(home))
        epoch = directory.clean_epoch(BOOT)
        directory.note_start(boot_id=BOOT, broker_epoch=EPOCH)
        directory.abandon()
        return epoch

    assert start() is None
    shutil.copytree(home, tmp_path / "copy")
    assert start() == EPOCH
    shutil.copytree(tmp_path / "copy", home, dirs_exist_ok=True)  # the same files
    assert start() is None
    assert start() == EPOCH
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "copy", home)
    assert start() is None


def test_the_epoch_is_that_of_the_broker_that_wrote_last() -> None:
    disk = formatted()
    running(disk)
    disk = disk.after_kill()
    running(disk, epoch=23)
    assert epoch_after(disk.after_kill()) == 23


def test_a_log_that_ends_below_its_high_watermark_has_lost_records() -> None:
    disk = formatted()
    directory, log = running(disk)
    batch = append(log, 2)
    log.note_watermark(log.end_offset)
    directory.raise_watermarks()
    assert epoch_after(disk.after_kill()) == EPOCH
    killed = disk.after_kill()
    del killed.files[log.segments[-1].file.path].data[-batch.size_bytes :]
    directory = LogDirectory.open(disk=killed, path="/data")
    directory.open_found(directory.partitions_found(), now_ms=NOW_MS)
    assert directory.clean_epoch(BOOT) is None
    assert not killed.exists(START)
    assert directory.recovery.reasons == [
        "/data/orders-0: ends at offset 60, below its high watermark 62"
    ]


def test_a_log_without_a_segment_has_lost_records() -> None:
    disk = formatted()
    _, log = running(disk)
    killed = disk.after_kill()
    for segment in log.segments:
        killed.remove(segment.file.path)
    assert epoch_after(killed) is None


def test_a_torn_batch_at_the_very_end_was_never_acked() -> None:
    disk = formatted()
    _, log = running(disk)
    size = log.segments[-1].size_bytes
    torn = bytes(make_batch(log.end_offset, 3).view)
    for kept in (1, 11, 12, 30, 61, len(torn) - 1):
        left = disk.after_kill()
        left.files[log.segments[-1].file.path].data += torn[:kept]
        assert len(left.files[log.segments[-1].file.path].data) == size + kept
        assert epoch_after(left) == EPOCH
        assert epoch_after(left.after_kill()) == EPOCH


@pytest.mark.parametrize(
    "kind",
    [
        "a flipped bit",
        "zeros at the end",
        "a torn batch before other segments",
        "a whole batch of a wrong size",
    ],
)
def test_what_no_kill_leaves_is_left_as_it_was_and_the_start_is_clean(kind: str) -> None:
    disk = formatted()
    _, log = running(disk)
    left = disk.after_kill()
    data = left.files[log.segments[-1].file.path].data
    if kind == "a flipped bit":
        data[-1] ^= 1
    elif kind == "zeros at the end":
        data.extend(bytes(100))
    elif kind == "a whole batch of a wrong size":
        batch = make_batch(log.end_offset - 2, 2)
        assert bytes(data[-batch.size_bytes :]) == bytes(batch.view)
        data[-batch.size_bytes + 9] ^= 1  # a bit of its size: it seems to reach beyond the end
    else:
        del left.files[log.segments[1].file.path].data[-40:]
    before = {path: bytes(file.data) for path, file in left.files.items() if FOLDER in path}
    for boot in (BOOT, BOOT, "another"):  # it stays so, whatever later starts know
        opened = LogDirectory.open(disk=left, path="/data", boot_id=boot)
        [error] = opened.open_found(opened.partitions_found(), now_ms=NOW_MS)
        assert "no crash leaves that" in str(error)
        assert (opened.clean_epoch(boot) == EPOCH) is (boot == BOOT)
        left = left.after_kill()
        assert (
            before.items() <= {path: bytes(file.data) for path, file in left.files.items()}.items()
        )


def test_a_start_after_a_power_loss_cuts_what_is_damaged() -> None:
    disk = formatted()
    _, log = running(disk)
    left = disk.after_kill()
    left.files[log.segments[-1].file.path].data[-1] ^= 1
    opened = LogDirectory.open(disk=left, path="/data", boot_id="another")
    assert not opened.open_found(opened.partitions_found(), now_ms=NOW_MS)
    assert opened.logs[PARTITION].end_offset == log.end_offset - 2


def test_synced_records_that_are_gone_make_a_start_unclean_though_nothing_is_torn() -> None:
    disk = formatted()
    directory, log = running(disk)
    log.sync()
    directory.save_checkpoints()
    left = disk.after_kill()
    last = log.segments[-1]
    del left.files[last.file.path].data[last.position_of(Offset(log.end_offset - 2)) :]
    assert epoch_after(left) is None
    assert epoch_after(left.after_kill()) is None


def test_a_partition_that_is_gone_makes_a_start_unclean() -> None:
    disk = formatted()
    directory, _ = running(disk)
    directory.save_checkpoints()
    left = disk.after_kill()
    left.remove_tree(FOLDER)
    assert epoch_after(left) is None
    assert epoch_after(left.after_kill()) is None


def test_a_partition_that_was_deleted_does_not() -> None:
    disk = formatted()
    directory, _ = running(disk)
    directory.save_checkpoints()
    directory.delete_partitions({PARTITION: TOPIC_ID})
    assert epoch_after(disk.after_kill()) == EPOCH


def test_a_partition_whose_files_are_gone_makes_a_start_unclean() -> None:
    disk = formatted()
    directory, log = running(disk)
    log.sync()
    directory.save_checkpoints()
    left = disk.after_kill()
    for path in [one for one in left.files if one.startswith(f"{FOLDER}/0")]:
        left.remove(path)
    assert epoch_after(left) is None


def test_nothing_is_known_before_every_log_is_open() -> None:
    disk = formatted()
    running(disk)
    left = LogDirectory.open(disk=disk.after_kill(), path="/data")
    assert left.clean_epoch(BOOT) is None
    left.open_found(left.partitions_found(), now_ms=NOW_MS)
    assert left.clean_epoch(BOOT) == EPOCH


def test_a_damaged_log_that_is_left_as_it_was_does_not_make_a_start_unclean() -> None:
    disk = formatted()
    directory, log = running(disk)
    log.sync()
    directory.save_checkpoints()
    left = disk.after_kill()
    left.files[log.segments[-1].file.path].data[70] ^= 1
    opened = LogDirectory.open(disk=left, path="/data")
    [error] = opened.open_found(opened.partitions_found(), now_ms=NOW_MS)
    assert "does not match" in str(error)
    assert opened.clean_epoch(BOOT) == EPOCH


def test_a_log_that_is_not_opened_makes_a_start_unclean() -> None:
    disk = formatted()
    running(disk)
    opened = LogDirectory.open(disk=disk.after_kill(), path="/data", boot_id=BOOT)
    assert opened.clean_epoch(BOOT) is None


def test_a_kill_of_a_broker_that_had_started_unclean_loses_nothing_either() -> None:
    disk = formatted()
    _, log = running(disk)
    left = disk.after_kill()
    left.files[log.segments[-1].file.path].data[-1] ^= 1
    running(left, epoch=EPOCH + 1)
    assert epoch_after(left.after_kill()) == EPOCH + 1


def test_a_log_that_loses_records_when_the_broker_has_its_epoch_makes_the_next_start_unclean() -> (
    None
):
    disk = formatted()
    _, log = running(disk)
    left = disk.after_kill()
    left.files[log.segments[-1].file.path].data[-1] ^= 1
    directory = LogDirectory.open(disk=left, path="/data")
    directory.note_start(boot_id=BOOT, broker_epoch=EPOCH + 1)
    directory.open_log(PARTITION, TOPIC_ID, SMALL, now_ms=NOW_MS)
    directory.note_start(boot_id=BOOT, broker_epoch=EPOCH + 2)
    assert epoch_after(left.after_kill()) is None


def test_a_start_file_that_was_removed_is_not_written_again() -> None:
    disk = formatted()
    directory, _ = running(disk)
    directory.start_file.remove()
    directory.note_start(boot_id=BOOT, broker_epoch=EPOCH + 1)
    assert epoch_after(disk.after_kill()) is None


def test_what_cannot_be_taken_back_is_not_made_untrue() -> None:
    """Recovery cuts nothing while the start file is still there."""
    disk = formatted()
    _, log = running(disk)
    left = disk.after_kill()
    left.files[log.segments[-1].file.path].data.extend(bytes(100))
    size = len(left.files[log.segments[-1].file.path].data)
    directory = LogDirectory.open(disk=left, path="/data")
    left.faults.calls, left.faults.fail_at = 0, 0  # the removal
    [error] = directory.open_found(directory.partitions_found(), now_ms=NOW_MS)
    assert isinstance(error, DiskError)
    assert error.path == START
    assert len(left.files[log.segments[-1].file.path].data) == size
    assert directory.clean_epoch(BOOT) is None


def test_killed_at_any_call_of_a_recovery_that_loses_something_no_start_is_clean() -> None:
    disk = formatted()
    directory, log = running(disk)
    log.sync()
    directory.save_checkpoints()
    damaged = disk.after_kill()
    del damaged.files[log.segments[-1].file.path].data[:]
    for crash_at in range(CALLS_MAX):
        left = damaged.after_kill()
        left.faults.crash_at = crash_at
        try:
            assert epoch_after(left) is None
        except Crashed:
            assert epoch_after(left.after_kill()) is None
        else:
            return
    pytest.fail(f"recovery takes more than {CALLS_MAX} calls")


def test_killed_at_any_call_of_a_recovery_that_loses_nothing_every_start_is_clean() -> None:
    disk = formatted()
    _, log = running(disk)
    torn = disk.after_kill()
    torn.files[log.segments[-1].file.path].data += bytes(make_batch(log.end_offset).view)[:70]
    for crash_at in range(CALLS_MAX):
        left = torn.after_kill()
        left.faults.crash_at = crash_at
        try:
            assert epoch_after(left) == EPOCH
        except Crashed:
            assert epoch_after(left.after_kill()) == EPOCH
        else:
            return
    pytest.fail(f"recovery takes more than {CALLS_MAX} calls")


def test_stopped_before_recovery_has_come_to_all_logs_no_marker_is_left() -> None:
    """As after a power loss, while a broker waits for its cluster: the logs are in doubt still."""
    disk = formatted()
    running(disk)
    left = disk.after_power_loss(random.Random(1))
    LogDirectory.open(disk=left, path="/data").close()
    again = LogDirectory.open(disk=left, path="/data")
    assert not again.clean


def test_stopped_without_opening_the_logs_of_a_clean_stop_the_marker_is_there_again() -> None:
    disk = formatted()
    directory, _ = running(disk)
    directory.close(broker_epoch=EPOCH)
    LogDirectory.open(disk=disk, path="/data").close(broker_epoch=EPOCH)
    assert epoch_after(disk, boot="another") == EPOCH


def test_a_stray_that_was_opened_is_set_aside() -> None:
    disk = formatted()
    directory, log = running(disk)
    path = directory.set_aside_stray(PARTITION)
    assert log.is_closed
    assert directory.logs == {}
    assert disk.is_directory(path)
    assert TopicPartition("orders", 0) not in directory.partitions_found()

"""Whatever the moment of a crash, the log comes back dense and nothing promised is lost."""

import random
from collections.abc import Callable

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from rig.logs import Opened, append, open_log, values
from rig.memory_disk import Crashed, MemoryDisk

CALLS_MAX = 400


class Promises:
    """What was acked, and what was synced, as the scenario goes."""

    def __init__(self) -> None:
        self.acked = 0  # offsets below it are in the page cache
        self.synced = 0  # and below this on disk
        self.start_min = 0  # the log begins here at the earliest
        self.start_max = 0  # and here at the latest

    def add(self, log: PartitionLog, count: int = 1) -> None:
        append(log, count, epoch=log.end_offset // 10, producer=7)
        self.acked = log.end_offset

    def cut(self, log: PartitionLog, offset: int) -> None:
        # From the moment it is asked for, what lies above is promised no longer.
        self.acked, self.synced = min(self.acked, offset), min(self.synced, offset)
        log.truncate_to(Offset(offset))

    def sync(self, opened: Opened) -> None:
        opened.log.sync()
        self.synced = opened.log.end_offset
        opened.directory.save_checkpoints()


def fill_and_roll(opened: Opened, promises: Promises) -> None:
    for count in (1, 3, 2, 5, 1, 4, 2, 2):
        promises.add(opened.log, count)
    promises.sync(opened)
    for count in (3, 1, 2, 6):
        promises.add(opened.log, count)


def truncate_and_go_on(opened: Opened, promises: Promises) -> None:
    fill_and_roll(opened, promises)
    promises.cut(opened.log, 12)  # where a batch begins
    for count in (2, 2, 4, 4):
        promises.add(opened.log, count)
    promises.sync(opened)
    promises.add(opened.log, 2)


def close_cleanly(opened: Opened, promises: Promises) -> None:
    fill_and_roll(opened, promises)
    opened.directory.close()
    promises.synced = promises.acked


def truncate_and_close(opened: Opened, promises: Promises) -> None:
    fill_and_roll(opened, promises)
    promises.cut(opened.log, 16)
    opened.directory.close()
    promises.synced = promises.acked


def delete_records(opened: Opened, promises: Promises) -> None:
    fill_and_roll(opened, promises)
    promises.start_max = 14
    opened.log.advance_start(Offset(14))
    promises.start_min = 14
    promises.add(opened.log, 3)
    promises.sync(opened)


def expire_all(opened: Opened, promises: Promises) -> None:
    fill_and_roll(opened, promises)
    opened.log.roll()
    promises.start_max = end = opened.log.end_offset
    opened.directory.move_starts({opened.log.partition: end})
    promises.start_min = end
    while opened.log.drop_oldest():
        pass
    promises.add(opened.log, 3)
    promises.sync(opened)


def expire_by_names(opened: Opened, promises: Promises) -> None:
    fill_and_roll(opened, promises)
    opened.log.roll()
    promises.add(opened.log, 2)
    promises.start_max = opened.log.segments[2].base_offset
    while opened.log.advance_by_name(Offset(promises.start_max)):
        promises.start_min = opened.log.start_offset
    promises.start_min = promises.start_max
    promises.add(opened.log, 3)
    promises.sync(opened)


SCENARIOS: list[Callable[[Opened, Promises], None]] = [
    fill_and_roll,
    truncate_and_go_on,
    close_cleanly,
    truncate_and_close,
    delete_records,
    expire_all,
    expire_by_names,
]


def run_until_crash(
    scenario: Callable[[Opened, Promises], None], crash_at: int
) -> tuple[MemoryDisk, Promises, bool]:
    """The disk as the crash finds it; False when the scenario came to its end before."""
    disk, promises = MemoryDisk(), Promises()
    disk.make_directory("/data")
    disk.sync_directory("/")
    disk.faults.calls, disk.faults.crash_at = 0, crash_at
    try:
        scenario(open_log(disk), promises)
    except Crashed:
        return disk, promises, True
    return disk, promises, False


def check_came_back(disk: MemoryDisk, *, promised_end: int, promises: Promises) -> None:
    opened = open_log(disk)
    log = opened.log
    log.check()
    assert log.end_offset >= promised_end
    assert promises.start_min <= log.start_offset <= promises.start_max
    assert values(log) == [
        (offset, str(offset).encode()) for offset in range(log.start_offset, log.end_offset)
    ]
    if log.end_offset > log.start_offset:
        [memory] = log.producers.by_id[7].batches[-1:]  # type: ignore[index]
        assert memory.last_offset == log.end_offset - 1
    for batch in log.batches_from(log.start_offset):
        assert log.epoch_at(max(batch.base_offset, log.start_offset)) == batch.leader_epoch
    # And it goes on: what comes now survives the next stop as well.
    append(log, 2, epoch=9, producer=7)
    end_offset = log.end_offset
    opened.directory.close()
    again = open_log(disk.after_kill())
    assert again.log.recovery.segments_scanned == 0
    assert again.log.end_offset == end_offset


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_any_call_every_acked_record_is_there(
    scenario: Callable[[Opened, Promises], None],
) -> None:
    for crash_at in range(CALLS_MAX):
        disk, promises, crashed = run_until_crash(scenario, crash_at)
        check_came_back(disk.after_kill(), promised_end=promises.acked, promises=promises)
        if not crashed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_power_lost_at_any_call_every_synced_record_is_there(
    scenario: Callable[[Opened, Promises], None],
) -> None:
    for crash_at in range(CALLS_MAX):
        disk, promises, crashed = run_until_crash(scenario, crash_at)
        for seed in range(6):
            left = disk.after_power_loss(random.Random(crash_at * 100 + seed))
            check_came_back(left, promised_end=promises.synced, promises=promises)
        if not crashed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


def test_power_lost_after_a_clean_stop_changes_nothing() -> None:
    for scenario in (close_cleanly, truncate_and_close):
        disk, promises, _ = run_until_crash(scenario, CALLS_MAX)
        for seed in range(50):
            again = open_log(disk.after_power_loss(random.Random(seed)))
            assert again.log.recovery.segments_scanned == 0
            assert again.log.end_offset == promises.acked


def test_power_lost_after_a_synced_truncation_does_not_bring_records_back() -> None:
    disk, promises = MemoryDisk(), Promises()
    disk.make_directory("/data")
    disk.sync_directory("/")
    opened = open_log(disk)
    fill_and_roll(opened, promises)
    promises.sync(opened)
    promises.cut(opened.log, 16)
    promises.sync(opened)
    for seed in range(50):
        assert open_log(disk.after_power_loss(random.Random(seed))).log.end_offset == 16


def test_crash_while_coming_back_from_a_crash_loses_nothing() -> None:
    disk, promises, _ = run_until_crash(truncate_and_go_on, 70)
    for crash_at in range(CALLS_MAX):
        recovering = disk.after_kill()
        recovering.faults.crash_at = crash_at
        try:
            open_log(recovering)
        except Crashed:
            check_came_back(recovering.after_kill(), promised_end=promises.acked, promises=promises)
        else:
            return
    pytest.fail(f"recovery takes more than {CALLS_MAX} calls")


def test_failed_write_changes_nothing_and_the_log_goes_on() -> None:
    for fail_at in range(CALLS_MAX):
        disk = MemoryDisk()
        opened = open_log(disk)
        log = opened.log
        disk.faults.calls, disk.faults.fail_at = 0, fail_at
        failed = False
        for _ in range(20):
            end_offset = log.end_offset
            try:
                append(log, 3, producer=7)
            except DiskError:
                failed = True
                assert log.end_offset == end_offset
                log.check()
                append(log, 3, producer=7)
        expected = [(offset, str(offset).encode()) for offset in range(60)]
        assert values(log) == expected
        assert values(open_log(disk.after_kill()).log) == expected
        if not failed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")

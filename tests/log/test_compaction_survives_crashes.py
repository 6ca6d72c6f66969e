"""Whatever the moment of a crash, compaction loses no key's latest value and revives no key."""

import random
from collections.abc import Callable

import pytest

from penstock.log.compaction.cleaner import Cleaned, clean_log
from penstock.log.compaction.owner import take_up
from penstock.log.errors import CorruptLog
from penstock.world.errors import DiskError
from penstock.world.ports import Rest
from rig.compacting import COMPACTED, Update, clean, plan, put, seal, state, state_of, stored
from rig.logs import NOW_MS, Opened, open_log
from rig.memory_disk import Crashed, MemoryDisk

CALLS_MAX = 1500
DAY_MS = 86_400_000


class Story:
    """A log, what was written to it, and what of that is promised."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.opened: Opened | None = None
        self.updates: list[Update] = []
        self.synced = 0
        self.deleted = 0  # offsets below it

    def begin(self) -> None:
        self.opened = open_log(self.disk, settings=COMPACTED)

    def put(self, *updates: Update) -> None:
        assert self.opened is not None
        offset = len(self.updates)
        self.updates.extend(updates)
        put(self.opened.log, *updates, now_ms=NOW_MS + offset, producer=7, sequence=offset)

    def seal(self) -> None:
        assert self.opened is not None
        seal(self.opened.log)
        self.synced = len(self.updates)
        self.opened.directory.save_checkpoints()

    def clean(self, *, now_ms: int = NOW_MS) -> None:
        assert self.opened is not None
        clean(self.disk, self.opened.log, now_ms=now_ms)

    def clean_beside_retention(self) -> None:
        """A pass one of whose sources is deleted while they are rewritten."""
        assert self.opened is not None
        log = self.opened.log
        steps = clean_log(self.disk, plan(log))
        item = next(item for item in steps if isinstance(item, Cleaned))
        self.deleted = log.segments[1].base_offset
        log.advance_start(log.segments[1].base_offset)
        assert not take_up(log, item)
        steps.close()

    def lose_helper(self, *, groups: int) -> None:
        """A pass that is killed when it has written the output for so many groups."""
        assert self.opened is not None
        steps = clean_log(self.disk, plan(self.opened.log))
        for item in steps:
            groups -= isinstance(item, Cleaned)
            if groups == 0:
                break
            assert not isinstance(item, Rest)
            assert take_up(self.opened.log, item)
        written = {path: node for path, node in self.disk.files.items() if ".cleaned" in path}
        assert written
        steps.close()
        self.disk.files.update(written)


def compact_once(story: Story) -> None:
    story.begin()
    for number in range(12):
        story.put((f"key {number % 3}", str(number)), (f"once {number}", "x" * 40))
    story.put(("key 0", None))
    story.seal()
    story.put(("key 1", "after"))
    story.clean()
    story.put(("key 2", "after"))


def compact_until_tombstones_go(story: Story) -> None:
    story.begin()
    for number in range(8):
        story.put((f"key {number % 2}", str(number)), ("gone", "x" * 60))
    story.put(("gone", None), ("key 0", None))
    story.seal()
    story.clean()
    story.put(("key 1", "again"))
    story.seal()
    story.clean(now_ms=NOW_MS + DAY_MS)
    story.put(("key 2", "new"))
    story.seal()
    story.clean(now_ms=NOW_MS + 2 * DAY_MS)
    story.put(("key 2", "newer"))


def compact_to_nothing_and_close(story: Story) -> None:
    story.begin()
    for number in range(8):
        story.put(("key", str(number) * 80))
    story.put(("key", None))
    story.seal()
    story.clean()
    story.put(("last", "1"))
    story.seal()
    story.clean(now_ms=NOW_MS + DAY_MS)
    assert story.opened is not None
    story.opened.directory.close()


def compact_again_after_a_pass_that_retention_has_overtaken(story: Story) -> None:
    story.begin()
    for number in range(12):
        story.put((f"key {number % 3}", str(number)), (f"once {number}", "x" * 60))
    story.seal()
    story.clean_beside_retention()
    story.put(("key 1", "after"), ("key 2", "after"))
    story.seal()
    story.clean()
    story.put(("key 2", "last"))


def compact_again_after_a_helper_was_killed(story: Story) -> None:
    """It leaves the output for the second segment, which the next pass merges with the first."""
    story.begin()
    for number in range(9):
        story.put(("key 0", str(number).ljust(20)))
    story.seal()
    for number in range(4):
        story.put(("key 1", str(number)), (f"once {number}", "x"))
    story.seal()
    for number in range(4):
        story.put(("key 2", str(number)), (f"late {number}", "x" * 120))
    story.seal()
    story.lose_helper(groups=2)
    story.put(("key 1", "after"), ("key 2", "after"))
    story.seal()
    story.clean()
    story.put(("key 2", "last"))


STORIES: list[Callable[[Story], None]] = [
    compact_once,
    compact_until_tombstones_go,
    compact_to_nothing_and_close,
    compact_again_after_a_pass_that_retention_has_overtaken,
    compact_again_after_a_helper_was_killed,
]


def run_until_crash(tell: Callable[[Story], None], crash_at: int) -> tuple[Story, bool]:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    story = Story(disk)
    disk.faults.calls, disk.faults.crash_at = 0, crash_at
    try:
        tell(story)
    except Crashed:
        return story, True
    return story, False


def check_came_back(disk: MemoryDisk, story: Story, *, promised: int) -> None:
    """Keys that nobody has touched since `promised` are as they were then, now and later."""
    opened = open_log(disk, settings=COMPACTED)
    log = opened.log
    log.check()
    assert promised <= log.end_offset <= len(story.updates)
    promises = state_of(story.updates[story.deleted : promised])
    settled = {key for key, _ in story.updates[story.deleted : promised]}
    settled -= {key for key, _ in story.updates[promised:]}
    for offset, key, value in stored(log):
        assert story.updates[offset] == (key, value)
    for now_ms in (NOW_MS, NOW_MS + 3 * DAY_MS):
        known = state(log)
        assert {key: known.get(key) for key in settled} == {
            key: promises.get(key) for key in settled
        }
        put(log, ("and on", "it goes"), now_ms=now_ms)
        seal(log)
        clean(disk, log, now_ms=now_ms)
    left = [name for name in disk.names("/data/orders-0") if name.endswith((".swap", ".cleaned"))]
    assert left == []


@pytest.mark.parametrize("tell", STORIES)
def test_killed_at_any_call_every_key_has_its_latest_value(tell: Callable[[Story], None]) -> None:
    for crash_at in range(CALLS_MAX):
        story, crashed = run_until_crash(tell, crash_at)
        # The update that was being written may or may not be there: it was not acked.
        before = len(story.updates) - (2 if crashed else 0)
        check_came_back(story.disk.after_kill(), story, promised=before)
        if not crashed:
            return
    pytest.fail(f"the story takes more than {CALLS_MAX} calls")


@pytest.mark.parametrize("tell", STORIES)
def test_power_lost_at_any_call_every_key_has_its_latest_synced_value(
    tell: Callable[[Story], None],
) -> None:
    for crash_at in range(CALLS_MAX):
        story, crashed = run_until_crash(tell, crash_at)
        for seed in range(3):
            left = story.disk.after_power_loss(random.Random(crash_at * 100 + seed))
            check_came_back(left, story, promised=story.synced)
        if not crashed:
            return
    pytest.fail(f"the story takes more than {CALLS_MAX} calls")


def test_crash_while_a_start_finishes_a_swap_loses_nothing() -> None:
    story, crashed = next(
        (story, crashed)
        for story, crashed in (run_until_crash(compact_once, at) for at in range(CALLS_MAX))
        if any(name.endswith(".log.swap") for name in story.disk.names("/data/orders-0"))
    )
    assert crashed
    for crash_at in range(CALLS_MAX):
        recovering = story.disk.after_kill()
        recovering.faults.crash_at = crash_at
        try:
            open_log(recovering, settings=COMPACTED)
        except Crashed:
            check_came_back(recovering.after_kill(), story, promised=story.synced)
            for seed in range(3):
                left = recovering.after_power_loss(random.Random(seed))
                check_came_back(left, story, promised=story.synced)
        else:
            return
    pytest.fail(f"recovery takes more than {CALLS_MAX} calls")


def test_failed_disk_call_leaves_a_log_that_reads_on_and_comes_back() -> None:
    for fail_at in range(CALLS_MAX):
        disk = MemoryDisk()
        story = Story(disk)
        story.begin()
        for number in range(12):
            story.put((f"key {number % 3}", str(number)), ("gone", "x" * 60))
        story.put(("gone", None))
        story.seal()
        disk.faults.calls, disk.faults.fail_at = 0, fail_at
        failed = False
        try:
            story.clean()
        except DiskError:
            failed = True
        disk.faults.fail_at = None
        assert story.opened is not None
        log = story.opened.log
        log.check()
        story.put(("key 9", "later"))
        assert state(log) == state_of(story.updates)
        assert state(open_log(disk.after_kill(), settings=COMPACTED).log) == state(log)
        if not failed:
            return
    pytest.fail(f"compaction takes more than {CALLS_MAX} calls")


@pytest.mark.parametrize("tell", STORIES)
def test_output_that_no_log_takes_up_is_removed(tell: Callable[[Story], None]) -> None:
    story, _ = run_until_crash(tell, CALLS_MAX)
    assert [name for name in story.disk.names("/data/orders-0") if "cleaned" in name] == []


def test_output_of_a_pass_that_is_overtaken_is_removed_at_once() -> None:
    story = Story(MemoryDisk())
    story.begin()
    for number in range(12):
        story.put(("key", str(number) * 60))
    story.seal()
    story.clean_beside_retention()
    assert [name for name in story.disk.names("/data/orders-0") if "cleaned" in name] == []


def test_damaged_batch_is_told_and_changes_nothing() -> None:
    disk = MemoryDisk()
    opened = open_log(disk, settings=COMPACTED)
    put(opened.log, ("ada", "1"))
    put(opened.log, ("ada", "2"))
    seal(opened.log)
    names = disk.names("/data/orders-0")
    disk.files["/data/orders-0/00000000000000000000.log"].data[100] ^= 1
    with pytest.raises(CorruptLog, match="at byte 72: the checksum does not match"):
        clean(disk, opened.log)
    assert disk.names("/data/orders-0") == names

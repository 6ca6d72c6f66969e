"""The simulated disk keeps what was synced, and is free to lose anything else."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from penstock.sim.disk import SimDisk
from penstock.sim.errors import ProcessKilled
from penstock.sim.file_system import FileSystem
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from penstock.world.errors import DiskError

TRIES = 40


def disk_on(file_system: FileSystem, loop: SimLoop | None = None) -> SimDisk:
    loop = loop or SimLoop()  # type: ignore[abstract]
    return SimDisk(file_system, KillSwitch(), loop, Trace(loop))


def fates(prepare: Callable[[SimDisk], None], path: str) -> set[bytes | None]:
    """What power losses leave of a file; None when it is gone."""
    left: set[bytes | None] = set()
    for seed in range(TRIES):
        file_system = FileSystem(Random(seed))
        prepare(disk_on(file_system))
        file_system.check()
        file_system.power_lost()
        file_system.check()
        disk = disk_on(file_system)
        left.add(disk.read(path) if disk.exists(path) else None)
    return left


def test_what_was_synced_with_its_name_survives_a_power_loss() -> None:
    def prepare(disk: SimDisk) -> None:
        file = disk.open("/a", create=True)
        file.append([b"kept"])
        file.sync()
        disk.sync_directory("/")

    assert fates(prepare, "/a") == {b"kept"}


def test_an_unsynced_write_is_kept_or_cut_or_zeroed_or_lost() -> None:
    def prepare(disk: SimDisk) -> None:
        file = disk.open("/a", create=True)
        file.append([b"kept"])
        file.sync()
        disk.sync_directory("/")
        file.append([b"more"])

    left = fates(prepare, "/a")
    assert {b"kept", b"keptmore", b"kept\0\0\0\0"} <= left
    assert all(one is not None and one.startswith(b"kept") for one in left)
    assert any(one is not None and 4 < len(one) < 8 for one in left)


def test_unsynced_sectors_survive_each_for_itself() -> None:
    def prepare(disk: SimDisk) -> None:
        file = disk.open("/a", create=True)
        file.sync()
        disk.sync_directory("/")
        file.append([b"1" * 512])
        file.append([b"2" * 512])

    assert b"\0" * 512 + b"2" * 512 in fates(prepare, "/a")


def test_a_name_that_was_not_synced_may_be_lost() -> None:
    def prepare(disk: SimDisk) -> None:
        file = disk.open("/a", create=True)
        file.append([b"kept"])
        file.sync()

    assert fates(prepare, "/a") == {b"kept", None}


def test_an_unsynced_rename_is_whole_or_has_not_been() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.write_whole("/a", b"old")
        file = disk.open("/b", create=True)
        file.append([b"new"])
        file.sync()
        disk.sync_directory("/")
        disk.rename("/b", "/a")

    assert fates(prepare, "/a") == {b"old", b"new"}


@pytest.mark.parametrize("synced", ["/from", "/to"])
def test_a_rename_between_folders_is_kept_once_either_of_them_is_synced(synced: str) -> None:
    def prepare(disk: SimDisk) -> None:
        for folder in ("/from", "/to"):
            disk.make_directory(folder)
        disk.sync_directory("/")
        disk.write_whole("/from/a", b"moved")
        disk.rename("/from/a", "/to/b")
        disk.sync_directory(synced)

    assert fates(prepare, "/from/a") == {None}
    assert fates(prepare, "/to/b") == {b"moved"}


def test_a_name_of_another_folder_is_not_kept_by_a_sync_of_this_one() -> None:
    def prepare(disk: SimDisk) -> None:
        for folder in ("/one", "/other"):
            disk.make_directory(folder)
        disk.sync_directory("/")
        for path in ("/one/a", "/other/a"):
            disk.open(path, create=True)
        disk.sync_directory("/one")

    assert fates(prepare, "/one/a") == {b""}
    assert fates(prepare, "/other/a") == {b"", None}


def test_a_file_replaced_whole_is_there_after_any_power_loss() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.write_whole("/a", b"old")
        disk.write_whole("/a", b"new")

    assert fates(prepare, "/a") == {b"new"}


def test_a_killed_process_leaves_the_page_cache_and_no_lock() -> None:
    file_system = FileSystem(Random(1))
    disk = disk_on(file_system)
    disk.lock("/lock")
    disk.open("/a", create=True).append([b"unsynced"])
    with pytest.raises(DiskError):
        disk_on(file_system).lock("/lock")
    file_system.process_killed()
    disk_on(file_system).lock("/lock")
    assert disk_on(file_system).read("/a") == b"unsynced"


def test_after_the_kill_switch_has_tripped_no_call_reaches_the_disk() -> None:
    file_system = FileSystem(Random(1))
    disk = disk_on(file_system)
    file = disk.open("/a", create=True)
    disk.kill_switch.trip()
    with pytest.raises(ProcessKilled):
        file.append([b"too late"])
    with pytest.raises(ProcessKilled):
        disk.exists("/a")
    assert disk_on(file_system).read("/a") == b""


def test_an_armed_crash_strikes_at_its_call_and_may_tear_the_write() -> None:
    file_system = FileSystem(Random(3))
    disk = disk_on(file_system)
    file = disk.open("/a", create=True)
    disk.kill_switch.trip_after(1)
    file.append([b"whole"])
    with pytest.raises(ProcessKilled):
        file.append([b"0123456789"])
    left = disk_on(file_system).read("/a")
    assert left.startswith(b"whole")
    assert len(left) < 15


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    loop = SimLoop()  # type: ignore[abstract]
    file_system = FileSystem(Random(1))
    disk = disk_on(file_system, loop)

    async def work() -> None:
        file = disk.open("/a", create=True)
        disk.sync_directory("/")
        file.append([b"before"])
        syncing = asyncio.ensure_future(disk.sync([file]))
        await asyncio.sleep(0)
        file.append([b"after"])
        await syncing
        assert file.content.durable == b"before"

    loop.run_until_complete(work())
    file_system.check()


def test_a_full_disk_refuses_and_changes_nothing() -> None:
    file_system = FileSystem(Random(1))
    disk = disk_on(file_system)
    file = disk.open("/a", create=True)
    file_system.room = 3
    with pytest.raises(DiskError) as refused:
        file.append([b"four"])
    assert refused.value.full
    assert file.size == 0
    file.append([b"two"])


def test_a_sync_that_failed_spoils_the_file() -> None:
    file_system = FileSystem(Random(1))
    disk = disk_on(file_system)
    file = disk.open("/a", create=True)
    file_system.syncs_fail = True
    with pytest.raises(DiskError):
        file.sync()
    file_system.syncs_fail = False
    with pytest.raises(DiskError):
        file.append([b"more"])


def test_a_folder_is_found_by_its_name_of_now() -> None:
    disk = disk_on(FileSystem(Random(1)))
    disk.make_directory("/a/b")
    disk.open("/a/b/file", create=True).append([b"first"])
    assert disk.read("/a/b/file") == b"first"
    disk.rename("/a/b", "/a/c")
    assert not disk.exists("/a/b/file")
    assert disk.read("/a/c/file") == b"first"
    disk.make_directory("/a/b")
    disk.open("/a/b/file", create=True).append([b"second"])
    assert disk.read("/a/b/file") == b"second"
    disk.remove_tree("/a")
    assert not disk.exists("/a/c/file")


def test_what_was_wiped_does_not_come_back_with_a_power_loss() -> None:
    for seed in range(TRIES):
        file_system = FileSystem(Random(seed))
        disk = disk_on(file_system)
        for path in ("/kept", "/wiped/below"):
            disk.make_directory(path)
            disk.open(f"{path}/file", create=True).append([b"records"])
        file_system.wipe("/wiped")
        assert disk.names("/wiped") == []
        file_system.power_lost()
        assert not disk_on(file_system).exists("/wiped/below/file")
        assert not disk_on(file_system).exists("/wiped/below")


def test_a_sync_stores_what_was_there_when_it_began() -> None:
    """Whatever is written, cut or synced until it ends."""
    for seed in range(TRIES):
        chance = Random(seed)
        file_system = FileSystem(Random(seed))
        file = disk_on(file_system).open("/a", create=True)
        file.append([bytes(chance.randrange(2_000))])
        file.sync()
        begun = []
        for _ in range(6):
            file.write_at(chance.randint(0, file.size), chance.randbytes(chance.randrange(1_500)))
            if chance.random() < 0.5:
                file.truncate(chance.randrange(2_500))
            begun.append((bytes(file.content.data), file.content.begin_sync()))
        latest = -1
        for number in chance.sample(range(6), 6):
            expected, sync = begun[number]
            file.content.end_sync(sync)
            if number > latest:
                latest = number
                assert file.content.durable == expected
            file_system.check()

"""The real disk."""

import asyncio
import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.world.disk import RealDisk
from penstock.world.errors import DiskError
from penstock.world.group_sync import GroupSync


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


FILE_SIZE_MAX = 8192


@contextmanager
def files_limited() -> Iterator[None]:
    """A limit on file sizes stands in for a full disk: a write comes up short, then fails.

    No longer than a write takes: it holds for whatever else this process writes.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_MAX, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_appended_buffers_lie_end_to_end(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    assert file.append([b"ab", bytearray(b"cd")]) == 0
    assert file.append([memoryview(b"ef")]) == 4
    assert file.size == 6
    assert file.read_at(1, 4) == b"bcde"
    file.close()


def test_more_buffers_than_one_call_takes_are_all_written(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([b"%06d" % number for number in range(3000)])
    assert file.size == 18_000
    assert file.read_at(6 * 2999, 6) == b"002999"
    file.close()


def test_read_past_the_end_gives_what_there_is(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([b"abc"])
    view = memoryview(bytearray(8))
    assert file.read_at(2, 100) == b"c"
    assert file.read_at(7, 100) == b""
    assert file.read_into(1, view) == 2
    assert bytes(view[:2]) == b"bc"
    file.close()


def test_failed_append_leaves_the_file_as_it_was(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([b"x" * (FILE_SIZE_MAX - 10)])
    with files_limited(), pytest.raises(DiskError):
        file.append([b"y" * 100])
    assert file.size == FILE_SIZE_MAX - 10
    assert (tmp_path / "log").stat().st_size == FILE_SIZE_MAX - 10
    with files_limited():
        file.append([b"z" * 10])
    assert file.read_at(FILE_SIZE_MAX - 11, 100) == b"x" + b"z" * 10
    file.close()


def test_more_files_than_descriptors_can_be_in_use(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=4)
    files = [disk.open(str(tmp_path / f"{number}"), create=True) for number in range(32)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append([b"%d-%d;" % (number, turn)])
    assert [file.read_at(0, 100) for file in files] == [
        b"%d-0;%d-1;%d-2;" % (number, number, number) for number in range(32)
    ]
    held = [
        name for name in os.listdir("/proc/self/fd")
        if str(tmp_path) in os.path.realpath(f"/proc/self/fd/{name}")
    ]  # fmt: skip
    assert len(held) <= 4
    for file in files:
        file.close()


def test_file_that_nobody_refers_to_frees_its_descriptor(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    disk.remove(str(tmp_path / "log"))
    file.append([b"still written and read"])
    assert file.read_at(0, 5) == b"still"
    descriptor = os.readlink(f"/proc/self/fd/{file.descriptor()}")
    del file
    assert descriptor not in [
        os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
    ]


def test_closed_file_refuses_and_closing_twice_is_harmless(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    file.close()
    file.close()
    with pytest.raises(DiskError, match="closed"):
        file.read_at(0, 1)


def test_whole_file_is_replaced_and_no_temporary_is_left(disk: RealDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    disk.write_whole(path, b"one")
    disk.write_whole(path, b"two")
    assert disk.read(path) == b"two"
    assert disk.names(str(tmp_path)) == ["checkpoint"]


def test_lock_excludes_another_until_it_is_closed(disk: RealDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = disk.lock(path)
    with pytest.raises(DiskError, match="locked by another"):
        RealDisk().lock(path)
    held.close()
    RealDisk().lock(path).close()


def test_trouble_names_the_path_and_tells_a_full_disk(disk: RealDisk, tmp_path: Path) -> None:
    with pytest.raises(DiskError) as missing:
        disk.open(str(tmp_path / "nowhere" / "log"))
    assert missing.value.path == str(tmp_path / "nowhere" / "log")
    assert not missing.value.full
    if os.path.exists("/dev/full"):
        with pytest.raises(DiskError) as full:
            disk.open("/dev/full").append([b"x"])
        assert full.value.full
        assert os.strerror(errno.ENOSPC) in str(full.value)


def test_removing_what_is_not_there_is_fine(disk: RealDisk, tmp_path: Path) -> None:
    disk.remove(str(tmp_path / "nothing"))
    disk.remove_tree(str(tmp_path / "nothing"))
    disk.make_directory(str(tmp_path / "a" / "b"))
    disk.make_directory(str(tmp_path / "a" / "b"))
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_file_whose_name_is_gone_is_read_by_who_still_has_it(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=1)
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([b"records"])
    for number in range(3):
        disk.open(str(tmp_path / f"other{number}"), create=True)
    file.hold()
    disk.rename(file.path, f"{file.path}.deleted")
    disk.remove(f"{file.path}.deleted")
    others = [disk.open(str(tmp_path / f"other{number}")) for number in range(3)]
    assert file.read_at(0, 7) == b"records"
    del others


def test_files_and_trees_are_removed_off_the_loop(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "below" / "file").write_bytes(b"x")
    (tmp_path / "file").write_bytes(b"x")
    paths = [str(tmp_path / name) for name in ("tree", "nothing", "file")]
    asyncio.run(disk.remove_trees(paths))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_told_after_the_rest_has_gone(
    disk: RealDisk, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(DiskError):
        asyncio.run(disk.remove_trees(["/proc/self/status", str(tmp_path / "file")]))
    assert list(tmp_path.iterdir()) == []


def test_files_and_directories_are_synced_side_by_side(disk: RealDisk, tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}") for number in range(20)]
    for path in paths:
        disk.open(path, create=True).append([b"x"])
    disk.sync_all([*paths, str(tmp_path)])
    with pytest.raises(DiskError):
        disk.sync_all([*paths, str(tmp_path / "nothing")])


@pytest.mark.filterwarnings("error")
def test_file_collected_while_pinned_frees_its_descriptor(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)
    descriptor = file.pin()
    del file
    with pytest.raises(OSError):
        os.fstat(descriptor)


class CountedFile:
    """Counts how often it is synced."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.syncs = 0
        self.is_closed = False

    def pin(self) -> int:
        self.syncs += 1
        return self.fd

    def unpin(self) -> None: ...

    def spoil(self, error: OSError) -> DiskError:
        raise AssertionError(error)


def test_many_who_wait_share_few_syncs(tmp_path: Path) -> None:
    async def scenario(file: CountedFile) -> None:
        syncs = GroupSync(open_files_max=1)
        await asyncio.gather(*(syncs.sync([file]) for _ in range(50)))

    with (tmp_path / "log").open("wb") as log:
        file = CountedFile(log.fileno())
        asyncio.run(scenario(file))
    assert file.syncs == 2  # the one under way when the second asked, and one for all the rest


def test_cancelled_waiter_does_not_take_the_sync_from_the_others(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)

    async def scenario() -> None:
        first = asyncio.create_task(disk.sync([file]))
        second = asyncio.create_task(disk.sync([file]))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first, second])
        assert first.cancelled()
        assert second.exception() is None

    asyncio.run(scenario())
    file.close()


def test_file_closed_during_its_sync_is_released_after_it(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "log"), create=True)

    async def scenario() -> None:
        sync = asyncio.create_task(disk.sync([file]))
        await asyncio.sleep(0)
        file.close()
        await sync

    asyncio.run(scenario())
    assert file.pins == 0


def test_failed_sync_is_final(disk: RealDisk) -> None:
    read_end, write_end = os.pipe()  # a pipe cannot be synced: fsync fails with EINVAL
    file = disk.open(f"/proc/self/fd/{write_end}")

    async def scenario() -> None:
        with pytest.raises(DiskError):
            await disk.sync([file])
        with pytest.raises(DiskError, match="earlier"):
            await disk.sync([file])
        with pytest.raises(DiskError, match="earlier"):
            file.append([b"x"])

    asyncio.run(scenario())
    file.close()
    os.close(read_end)
    os.close(write_end)


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_descriptor = os.dup(0)
    os.close(next_descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_descriptor, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_lack_of_descriptors_is_no_failure_of_the_disk(disk: RealDisk, tmp_path: Path) -> None:
    with no_more_descriptors(), pytest.raises(DiskError) as short:
        disk.open(str(tmp_path / "one more"), create=True)
    assert short.value.full


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o027])
def test_a_new_file_has_the_mode_that_umask_leaves(
    disk: RealDisk, tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        disk.open(str(tmp_path / "opened"), create=True).close()
        disk.lock(str(tmp_path / "locked")).close()
        disk.write_whole(str(tmp_path / "whole"), b"abc")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("opened", "locked", "whole"), 0o666 & ~umask)


def test_where_no_descriptor_is_free_an_idle_file_gives_way(disk: RealDisk, tmp_path: Path) -> None:
    idle = disk.open(str(tmp_path / "idle"), create=True)
    idle.append([b"abc"])
    with no_more_descriptors():
        disk.write_whole(str(tmp_path / "whole"), b"def")
        other = disk.open(str(tmp_path / "other"), create=True)
        assert idle.read_at(0, 3) == b"abc"
        other.append([disk.read(str(tmp_path / "whole"))])
        disk.sync_directory(str(tmp_path))
    assert other.read_at(0, 3) == b"def"


def test_a_want_of_descriptors_hides_no_failed_sync(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    disk = RealDisk(open_files_max=1)
    idle = disk.open(str(tmp_path / "idle"), create=True)
    failing = disk.open(f"/proc/self/fd/{write_end}")
    failing.pin()  # it does not give way

    async def scenario() -> None:
        with no_more_descriptors(), pytest.raises(DiskError) as failed:
            await disk.sync([idle, failing])
        assert failed.value.path == failing.path
        assert not failed.value.full

    asyncio.run(scenario())
    os.close(read_end)
    os.close(write_end)


def test_failed_sync_is_told_to_the_watcher_before_the_caller(disk: RealDisk) -> None:
    read_end, write_end = os.pipe()
    file = disk.open(f"/proc/self/fd/{write_end}")
    told: list[str] = []
    disk.watch("/proc/self/fd", lambda: told.append("failed"))
    with pytest.raises(DiskError):
        file.sync()
    assert told == ["failed"]
    with pytest.raises(DiskError):
        file.sync()
    assert told == ["failed"]  # once
    file.close()
    os.close(read_end)
    os.close(write_end)


def test_failed_write_is_told_to_the_watcher_of_its_directory_alone(
    disk: RealDisk, tmp_path: Path
) -> None:
    told: list[str] = []
    for name in ("one", "one more"):
        (tmp_path / name).mkdir()
        disk.watch(str(tmp_path / name), lambda name=name: told.append(name))  # type: ignore[misc]
    file = disk.open(str(tmp_path / "one" / "log"), create=True)
    with files_limited(), pytest.raises(DiskError):
        file.append([b"y" * FILE_SIZE_MAX * 2])
    assert told == ["one"]
    file.close()


def test_want_of_room_is_no_failure(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    told: list[str] = []
    disk.watch(str(tmp_path), lambda: told.append("failed"))
    file = disk.open(str(tmp_path / "log"), create=True)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskError) as refused:
        file.append([b"y"])
    assert refused.value.full
    assert told == []
    file.close()


def test_watcher_that_fails_itself_is_not_told_again(disk: RealDisk, tmp_path: Path) -> None:
    told: list[str] = []

    def failed() -> None:
        told.append("failed")
        with pytest.raises(DiskError):
            disk.sync_directory(str(tmp_path / "nothing"))

    disk.watch(str(tmp_path), failed)
    with files_limited(), pytest.raises(DiskError):
        disk.open(str(tmp_path / "log"), create=True).append([b"y" * FILE_SIZE_MAX * 2])
    assert told == ["failed"]

"""The Disk port of one process on a simulated file system.

Every change first asks the kill switch, which is where an armed crash strikes: nothing of that call
happens, except that a write may have got some of its bytes into the page cache.
"""

import asyncio
from collections.abc import Callable, Sequence

from penstock.sim.clock import BEGIN_MS
from penstock.sim.errors import ProcessKilled
from penstock.sim.file_system import BegunSync, Content, Edit, FileSystem, Folder
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from penstock.world.errors import DiskError
from penstock.world.failures import Failures
from penstock.world.ports import Buffer, File

TOTAL_BYTES = 2**40


class SimFile:
    """An open file; see `File` in ports."""

    __slots__ = ("_closed", "_disk", "_locked", "content", "path", "spoiled")

    def __init__(self, disk: "SimDisk", path: str, content: Content, *, locked: bool) -> None:
        self.path = path
        self.content = content
        self._disk = disk
        self._locked = locked
        self._closed = False
        self.spoiled = False  # a sync failed: what the disk holds is unknown

    @property
    def size(self) -> int:
        return len(self.content.data)

    def read_at(self, position: int, count: int) -> bytes:
        self._disk.kill_switch.check()
        self._refuse_if_closed()
        return bytes(self.content.data[position : position + count])

    def read_into(self, position: int, view: memoryview) -> int:
        data = self.read_at(position, len(view))
        view[: len(data)] = data
        return len(data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        position = self.size
        self.write_at(position, b"".join(buffers))
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        assert 0 <= position <= self.size, (position, self.size)
        self._refuse_if_closed()
        torn = self._disk.check_disk_change("write", self.path, len(data))
        if torn:
            data = bytes(data[: self._disk.file_system.chance.randint(0, len(data))])
        self._refuse_if_spoiled()
        end = position + len(data)
        self._disk.file_system.take_room(self.path, max(0, end - self.size))
        self.content.touch(position, end)
        self.content.modified_us = self._disk.now_us
        self.content.data[position:end] = data
        if torn:
            raise ProcessKilled

    def truncate(self, size: int) -> None:
        self._refuse_if_closed()
        self._disk.check_disk_change_or_end("truncate", self.path, size)
        self._refuse_if_spoiled()
        content = self.content
        content.touch(min(size, self.size), max(size, self.size))
        self._disk.file_system.give_room(max(0, self.size - size))
        del content.data[size:]
        content.data.extend(bytes(size - self.size))

    def sync(self) -> None:
        self._refuse_if_closed()
        self._disk.check_disk_change_or_end("sync", self.path, self.size)
        self._refuse_if_spoiled()
        if self._disk.file_system.syncs_fail:
            raise self.spoil()
        self.content.end_sync(self.content.begin_sync())

    def hold(self) -> None:
        pass  # who refers to the content can read it ever after, whatever its name

    def close(self) -> None:
        self._closed = True
        if self._locked and not self._disk.kill_switch.is_tripped:
            self._disk.file_system.locks.discard(self.path)

    def spoil(self) -> DiskError:
        self.spoiled = True
        self._disk.failures.note(self.path)
        return DiskError(self.path, "Input/output error")

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise DiskError(self.path, "the file has been closed")

    def _refuse_if_spoiled(self) -> None:
        if self.spoiled:
            raise DiskError(self.path, "an earlier sync failed; its state is unknown")


class SimDisk:
    """The file system as one process sees it; see `Disk` in ports."""

    def __init__(
        self, file_system: FileSystem, kill_switch: KillSwitch, loop: SimLoop, trace: Trace
    ) -> None:
        self.file_system = file_system
        self.kill_switch = kill_switch
        self.failures = Failures()
        self._loop = loop
        self._trace = trace

    # Queries

    @property
    def now_us(self) -> int:
        return self._loop.now_us

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Folder)

    def size(self, path: str) -> int:
        return len(self._content(path).data)

    def modified_ms(self, path: str) -> int:
        return BEGIN_MS + self._content(path).modified_us // 1000

    def signature(self, path: str) -> str:
        return str(self._content(path).modified_us)

    def names(self, directory: str) -> list[str]:
        return sorted(self._folder(directory).entries)

    def read(self, path: str) -> bytes:
        return bytes(self._content(path).data)

    def free_bytes(self, path: str) -> int:
        room = self.file_system.room
        return TOTAL_BYTES // 2 if room is None else room

    def total_bytes(self, path: str) -> int:
        return TOTAL_BYTES

    # Commands

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimFile:
        return SimFile(self, path, self._opened(path, create=create), locked=False)

    def lock(self, path: str) -> SimFile:
        content = self._opened(path, create=True)
        if path in self.file_system.locks:
            raise DiskError(path, "locked by another node")
        self.file_system.locks.add(path)
        return SimFile(self, path, content, locked=True)

    def make_directory(self, path: str) -> None:
        above = path.rpartition("/")[0]
        if not path or self.is_directory(path):
            return
        self.make_directory(above)
        folder, name = self.file_system.folder_of(path)
        self.check_disk_change_or_end("mkdir", path)
        self.file_system.take_room(path, 1)
        self.file_system.change(Edit(folder, name, Folder()))

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = self.open(f"{path}.tmp", create=True)
        if temporary.size:
            temporary.truncate(0)
        temporary.append([data])
        temporary.sync()
        self.rename(f"{path}.tmp", path)
        self.sync_directory(path.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        entry = self._find(source)
        if entry is None:
            raise DiskError(source, "No such file or directory")
        old_folder, old_name = self.file_system.folder_of(source)
        new_folder, new_name = self.file_system.folder_of(target)
        self.check_disk_change_or_end("rename", source, target)
        if self.file_system.about_to_rename is not None:
            self.file_system.about_to_rename(source, target)
        self.file_system.change(Edit(new_folder, new_name, entry), Edit(old_folder, old_name, None))

    def remove(self, path: str) -> None:
        found = self._find(path)
        if found is None:
            return
        assert isinstance(found, Content), path
        self._unlink(path)
        self.file_system.give_room(len(found.data))

    def remove_tree(self, path: str) -> None:
        found = self._find(path)
        if isinstance(found, Folder):
            for name in sorted(found.entries):
                self.remove_tree(f"{path}/{name}")
            self._unlink(path)
        else:
            self.remove(path)

    def sync_directory(self, path: str) -> None:
        folder = self._folder(path)
        self.check_disk_change_or_end("sync", path)
        if self.file_system.syncs_fail:
            self.failures.note(path)
            raise DiskError(path, "Input/output error")
        self.file_system.sync_folder(folder)

    def sync_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self.is_directory(path):
                self.sync_directory(path)
            else:
                self.open(path).sync()

    def watch(self, directory: str, failed: Callable[[], None]) -> None:
        self.failures.watch(directory, failed)

    async def sync(self, files: Sequence[File]) -> None:
        self.kill_switch.check()
        under_way = [self._begin_sync(file) for file in files]
        for done in under_way:
            # Shielded, as the real one: a cancelled waiter does not call a sync back.
            await asyncio.shield(done)
        self.kill_switch.check()

    async def remove_trees(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.remove_tree(path)
            await asyncio.sleep(0)  # others have their turn, and a crash may come, in between

    # Parts

    def check_disk_change(self, *what: str | int) -> bool:
        self._trace.detail(*what)
        return self.kill_switch.check_disk_change()

    def check_disk_change_or_end(self, *what: str | int) -> None:
        if self.check_disk_change(*what):
            raise ProcessKilled

    def _begin_sync(self, file: File) -> "asyncio.Future[None]":
        assert isinstance(file, SimFile), "a file of another disk"
        done: asyncio.Future[None] = self._loop.create_future()
        if file.spoiled:
            _fail(done, DiskError(file.path, "an earlier sync failed; its state is unknown"))
            return done
        delay_us = self.file_system.chance.randint(*self.file_system.sync_us)
        begun = file.content.begin_sync()
        self._loop.call_outside(delay_us, self._end_sync, file, begun, done)
        return done

    def _end_sync(self, file: SimFile, begun: BegunSync, done: "asyncio.Future[None]") -> None:
        self._trace.detail("synced", file.path, begun.size)
        if self.kill_switch.is_tripped:
            file.content.give_up_sync(begun)
            _fail(done, ProcessKilled())
        elif self.file_system.syncs_fail or file.spoiled:
            file.content.give_up_sync(begun)
            _fail(done, file.spoil())
        else:
            file.content.end_sync(begun)
            done.set_result(None)

    def _opened(self, path: str, *, create: bool) -> Content:
        found = self._find(path)
        if found is None and create:
            folder, name = self.file_system.folder_of(path)
            self.check_disk_change_or_end("create", path)
            self.file_system.take_room(path, 1)
            found = Content()
            self.file_system.change(Edit(folder, name, found))
        if not isinstance(found, Content):
            raise DiskError(path, "No such file or directory")
        return found

    def _unlink(self, path: str) -> None:
        folder, name = self.file_system.folder_of(path)
        self.check_disk_change_or_end("unlink", path)
        self.file_system.change(Edit(folder, name, None))

    def _find(self, path: str) -> Content | Folder | None:
        self.kill_switch.check()
        return self.file_system.find(path)

    def _content(self, path: str) -> Content:
        found = self._find(path)
        if not isinstance(found, Content):
            raise DiskError(path, "No such file or directory")
        return found

    def _folder(self, path: str) -> Folder:
        found = self._find(path)
        if not isinstance(found, Folder):
            raise DiskError(path, "No such file or directory")
        return found


def _fail(done: "asyncio.Future[None]", error: BaseException) -> None:
    done.set_exception(error)
    done.exception()  # seen, should every waiter have been cancelled

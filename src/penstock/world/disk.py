"""The real disk: files of the operating system, under a bound of open descriptors.

A `RealFile` is a name and a size; its descriptor is opened when it is needed and may be closed
again behind its back, so that a node of 4,000 partitions lives under a limit of 1,024
descriptors. Start reading at `RealFile`.

Invariants:
1. `size` is the length of the file as the page cache has it: nobody else writes the file.
2. After a failed append the file is as long as before it; where that could not be restored, the
   file is spoiled and refuses every later write.
3. A descriptor in use by another thread (a sync under way) is pinned and never evicted; one that
   holds a lock is not counted among the evictable ones at all.
4. A file that nobody refers to any more gives its descriptor back: a reply may outlive the segment
   it sends from, and the last of the two to go frees the disk. One whose name is gone (`hold`)
   keeps its descriptor until then: it could not be opened again.
5. A file whose sync failed is spoiled too: what the platter holds is unknown.
"""

import asyncio
import errno
import fcntl
import os
import shutil
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.world import descriptors
from penstock.world.group_sync import GroupSync
from penstock.world.ports import Buffer, File
from penstock.world.trouble import DiskError

BUFFERS_PER_WRITE_MAX = 1024  # IOV_MAX of Linux
SYNCS_AT_ONCE = 8
CLOSED = -1


class RealFile:
    """One file; see the module's invariants."""

    __slots__ = (
        "__weakref__",
        "_closed",
        "_descriptors",
        "_fd",
        "_flags",
        "_held",
        "_spoiled",
        "path",
        "pins",
        "size",
        "used",
    )

    def __init__(self, descriptors: "Descriptors", path: str, fd: int, flags: int) -> None:
        self._fd = fd
        self.path = path
        self.size = os.fstat(fd).st_size
        self.pins = 0
        self.used = True
        self._descriptors = descriptors
        self._flags = flags
        self._spoiled = False
        self._closed = False
        self._held = False

    def __del__(self) -> None:
        # Without a look at the pins: a loop that ends during a sync leaves its file pinned.
        if self._fd != CLOSED:
            self._close_descriptor()

    @property
    def evictable(self) -> bool:
        return self.pins == 0 and not self._held

    def descriptor(self) -> int:
        """The open descriptor, good until the next call on any file of this disk."""
        self.used = True
        if self._fd == CLOSED:
            self._reopen()
        return self._fd

    def read_at(self, position: int, count: int) -> bytes:
        assert position >= 0, position
        assert count >= 0, count
        try:
            data = os.pread(self.descriptor(), count, position)
        except OSError as trouble:
            raise disk_error(self.path, trouble) from trouble
        expected = min(count, self.size - position)
        while len(data) < expected:
            data += self._read_more(position + len(data), expected - len(data))
        return data

    def read_into(self, position: int, view: memoryview) -> int:
        assert position >= 0, position
        filled = 0
        try:
            while filled < len(view):
                count = os.preadv(self.descriptor(), [view[filled:]], position + filled)
                if count == 0:
                    break
                filled += count
        except OSError as trouble:
            raise disk_error(self.path, trouble) from trouble
        return filled

    def append(self, buffers: Sequence[Buffer]) -> int:
        position = self.size
        self._refuse_if_spoiled()
        try:
            end = self._write_all(buffers, position)
        except OSError as trouble:
            self._restore(position)
            raise disk_error(self.path, trouble) from trouble
        self.size = end
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        assert 0 <= position <= self.size, (position, self.size)
        self._refuse_if_spoiled()
        try:
            end = self._write_all([data], position)
        except OSError as trouble:
            self._restore(self.size)
            raise disk_error(self.path, trouble) from trouble
        self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        assert size >= 0, size
        self._refuse_if_spoiled()
        try:
            os.ftruncate(self.descriptor(), size)
        except OSError as trouble:
            raise disk_error(self.path, trouble) from trouble
        self.size = size

    def sync(self) -> None:
        self._refuse_if_spoiled()
        try:
            os.fsync(self.descriptor())
        except OSError as trouble:
            self._spoiled = True
            raise disk_error(self.path, trouble) from trouble

    def hold(self) -> None:
        self.descriptor()
        self._held = True

    def close(self) -> None:
        self._closed = True
        if self.pins == 0:
            self.release()

    def pin(self) -> int:
        """The descriptor, kept open until `unpin`, for an fsync on another thread."""
        self._refuse_if_spoiled()
        fd = self.descriptor()
        self.pins += 1
        return fd

    def unpin(self) -> None:
        assert self.pins > 0
        self.pins -= 1
        if self._closed and self.pins == 0:
            self.release()

    def spoil(self, trouble: OSError) -> DiskError:
        """Refuses every write from now on; the error to tell those who waited for the sync."""
        self._spoiled = True
        return disk_error(self.path, trouble)

    def release(self) -> None:
        """Gives the descriptor back; a file that is not closed opens another when it needs one."""
        assert self.pins == 0
        if self._fd != CLOSED:
            self._close_descriptor()

    def _close_descriptor(self) -> None:
        os.close(self._fd)
        self._fd = CLOSED
        self._descriptors.forget(self)

    def _reopen(self) -> None:
        if self._closed:
            raise DiskError(self.path, "the file has been closed")
        try:
            self._fd = os.open(self.path, self._flags)
        except OSError as trouble:
            raise disk_error(self.path, trouble) from trouble
        self._descriptors.remember(self)

    def _read_more(self, position: int, count: int) -> bytes:
        try:
            data = os.pread(self.descriptor(), count, position)
        except OSError as trouble:
            raise disk_error(self.path, trouble) from trouble
        if not data:
            raise DiskError(
                self.path, f"ends at {position}, though {count} more bytes were written"
            )
        return data

    def _write_all(self, buffers: Sequence[Buffer], position: int) -> int:
        """Writes until all is written: a call may take less than it was given (2 GiB, signals)."""
        fd = self.descriptor()
        total = sum(map(len, buffers))
        if len(buffers) == 1:
            written = os.pwrite(fd, buffers[0], position)
            if written == total:
                return position + total
        elif len(buffers) <= BUFFERS_PER_WRITE_MAX:
            written = os.pwritev(fd, buffers, position)
            if written == total:
                return position + total
        else:
            written = 0
        for buffer in buffers:
            if written >= len(buffer):
                written -= len(buffer)
                position += len(buffer)
                continue
            rest = memoryview(buffer)[written:]
            position += written
            written = 0
            while rest:
                count = os.pwrite(fd, rest, position)
                position += count
                rest = rest[count:]
        return position

    def _restore(self, size: int) -> None:
        try:
            os.ftruncate(self.descriptor(), size)
        except (OSError, DiskError):
            self._spoiled = True

    def _refuse_if_spoiled(self) -> None:
        if self._spoiled:
            raise DiskError(self.path, "an earlier write or sync failed; its state is unknown")


class Descriptors:
    """The open descriptors of one disk, at most `open_max`; the least used one gives way.

    Second chance: a file used since the last round is passed over once, which costs a flag on the
    way in and no reordering.
    """

    def __init__(self, open_max: int) -> None:
        assert open_max > 0, open_max
        self.open_max = open_max
        self.open: dict[int, weakref.ref[RealFile]] = {}  # by identity (invariant 4)

    def make_room(self) -> None:
        """Call before opening another; more than `open_max` stay open only while none can go."""
        for _ in range(2 * len(self.open)):
            if len(self.open) < self.open_max:
                return
            identity, reference = next(iter(self.open.items()))
            file = reference()
            if file is None:  # being collected: it closes its descriptor in a moment
                del self.open[identity]
            elif file.used or not file.evictable:
                file.used = False
                del self.open[identity]
                self.open[identity] = reference
            else:
                file.release()

    def remember(self, file: RealFile) -> None:
        self.make_room()
        self.open[id(file)] = weakref.ref(file)

    def forget(self, file: RealFile) -> None:
        self.open.pop(id(file), None)


class RealDisk:
    """The file system; see `Disk` in ports."""

    def __init__(self, *, open_files_max: int | None = None) -> None:
        self._descriptors = Descriptors(open_files_max or descriptors.open_files_max())
        self._syncs = GroupSync()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        file = self._opened(path, create=create, writable=writable)
        self._descriptors.remember(file)
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except OSError as trouble:
            raise disk_error(directory, trouble) from trouble

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def read(self, path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble
        self.sync_directory(os.path.dirname(path) or ".")

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(source, target)
        except OSError as trouble:
            raise disk_error(source, trouble) from trouble

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def sync_directory(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble

    def sync_all(self, paths: Sequence[str]) -> None:
        # Side by side they share the commits of the file system's journal: measured on a busy
        # disk, 8 threads take a tenth of the time of one.
        with ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="penstock-sync-all") as threads:
            for _ in threads.map(self.sync_directory, dict.fromkeys(paths)):
                pass

    def lock(self, path: str) -> RealFile:
        file = self._opened(path, create=True, writable=True)
        try:
            fcntl.flock(file.descriptor(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as trouble:
            file.close()
            raise DiskError(path, "locked by another node") from trouble
        return file

    def free_bytes(self, path: str) -> int:
        status = self._file_system(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = self._file_system(path)
        return status.f_blocks * status.f_frsize

    async def sync(self, files: Sequence[File]) -> None:
        mine = [file for file in files if isinstance(file, RealFile)]
        assert len(mine) == len(files), "a file of another disk"
        await self._syncs.sync(mine)

    async def remove_trees(self, paths: Sequence[str]) -> None:
        # On a thread of the syncs, of which there are several: removing is as rare as it is slow.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._syncs.threads, remove_all, paths)

    def close(self) -> None:
        """Ends the threads that sync; for a disk that the process outlives."""
        self._syncs.close()

    def _opened(self, path: str, *, create: bool, writable: bool) -> RealFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        try:
            fd = os.open(path, flags | (os.O_CREAT if create else 0), 0o644)
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble
        return RealFile(self._descriptors, path, fd, flags)

    def _file_system(self, path: str) -> os.statvfs_result:
        try:
            return os.statvfs(path)
        except OSError as trouble:
            raise disk_error(path, trouble) from trouble


def remove_all(paths: Sequence[str]) -> None:
    trouble: DiskError | None = None
    for path in paths:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            failed = _unlink(path)
            trouble = trouble or failed
        except OSError as failure:
            trouble = trouble or disk_error(path, failure)
    if trouble is not None:
        raise trouble


def _unlink(path: str) -> DiskError | None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as trouble:
        return disk_error(path, trouble)
    return None


# Space, or descriptors, or memory: the disk itself is sound, and the same call may go well later.
SHORT_OF_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def disk_error(path: str, trouble: OSError) -> DiskError:
    full = trouble.errno in SHORT_OF_ROOM
    return DiskError(path, trouble.strerror or str(trouble), full=full)

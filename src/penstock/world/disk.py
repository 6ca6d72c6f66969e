"""The real disk: the file system, and files (`world/real_file`) under a bound of descriptors."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from penstock.world import descriptors
from penstock.world.errors import DiskError
from penstock.world.group_sync import GroupSync
from penstock.world.ports import File
from penstock.world.real_file import Descriptors, RealFile, disk_error

SYNCS_AT_ONCE = 8


class RealDisk:
    """The file system; see `Disk` in ports."""

    def __init__(self, *, open_files_max: int | None = None) -> None:
        self._descriptors = Descriptors(open_files_max or descriptors.open_files_max())
        # Half of them: other files are read and written meanwhile.
        self._syncs = GroupSync(open_files_max=max(1, self._descriptors.open_max // 2))

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        file = self._opened(path, create=create, writable=writable)
        file.count_descriptor()
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except OSError as error:
            raise disk_error(path, error) from error

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            raise disk_error(path, error) from error

    def signature(self, path: str) -> str:
        try:
            status = os.stat(path)
        except OSError as error:
            raise disk_error(path, error) from error
        # A copy gets another inode, or at least another time of its last change: nobody sets that.
        return f"{status.st_ino}-{status.st_ctime_ns}"

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except OSError as error:
            raise disk_error(directory, error) from error

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise disk_error(path, error) from error

    def read(self, path: str) -> bytes:
        try:
            with open(path, "rb", opener=self._descriptors.open_fd) as file:
                return file.read()
        except OSError as error:
            raise disk_error(path, error) from error

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        try:
            with open(temporary, "wb", opener=self._descriptors.open_fd) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            failure = disk_error(path, error)
            if not failure.full:
                self._descriptors.failures.note(path)
            raise failure from error
        self.sync_directory(os.path.dirname(path) or ".")

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(source, target)
        except OSError as error:
            raise disk_error(source, error) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_error(path, error) from error

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_error(path, error) from error

    def sync_directory(self, path: str) -> None:
        self._sync_path(path, self._descriptors.open_fd)

    def sync_all(self, paths: Sequence[str]) -> None:
        # Side by side they share the commits of the file system's journal: measured on a busy
        # disk, 8 threads take a tenth of the time of one.
        with ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="penstock-sync-all") as threads:
            # No open file gives way: who uses it may be in the middle of that.
            for _ in threads.map(self._sync_path, dict.fromkeys(paths), repeat(os.open)):
                pass

    def lock(self, path: str) -> RealFile:
        file = self._opened(path, create=True, writable=True)
        try:
            fcntl.flock(file.descriptor(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise DiskError(path, "locked by another node") from error
        return file

    def free_bytes(self, path: str) -> int:
        status = self._file_system(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = self._file_system(path)
        return status.f_blocks * status.f_frsize

    def watch(self, directory: str, failed: Callable[[], None]) -> None:
        self._descriptors.failures.watch(directory, failed)

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

    def _sync_path(self, path: str, open_fd: Callable[[str, int], int]) -> None:
        try:
            fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._fsync(path, fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise disk_error(path, error) from error

    def _fsync(self, path: str, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError:
            self._descriptors.failures.note(path)
            raise

    def _opened(self, path: str, *, create: bool, writable: bool) -> RealFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        try:
            fd = self._descriptors.open_fd(path, flags | (os.O_CREAT if create else 0))
        except OSError as error:
            raise disk_error(path, error) from error
        return RealFile(self._descriptors, path, fd, flags)

    def _file_system(self, path: str) -> os.statvfs_result:
        try:
            return os.statvfs(path)
        except OSError as error:
            raise disk_error(path, error) from error


def remove_all(paths: Sequence[str]) -> None:
    error: DiskError | None = None
    for path in paths:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            failed = _unlink(path)
            error = error or failed
        except OSError as failure:
            error = error or disk_error(path, failure)
    if error is not None:
        raise error


def _unlink(path: str) -> DiskError | None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        return disk_error(path, error)
    return None

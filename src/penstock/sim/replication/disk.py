"""The disk of one node: files in memory, and what a power loss leaves of them.

A killed process loses nothing. A power loss keeps what was synced and, of what was appended since,
the bytes up to some point; a file that was cut or written anew since is the old one or the new one.
Names last as soon as they are made: `sim/file_system` is harder on names and on single sectors.
"""

from collections.abc import Callable, Sequence

from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from penstock.world.ports import Buffer, File

Draw = Callable[[int], int]  # a number from 0 up to, and without, the bound


class Content:
    __slots__ = ("data", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""


class StoredFile:
    """An open file; see `File` in ports."""

    def __init__(self, path: str, content: Content) -> None:
        self.path = path
        self._content = content

    @property
    def size(self) -> int:
        return len(self._content.data)

    def read_at(self, position: int, count: int) -> bytes:
        return bytes(self._content.data[position : position + count])

    def read_into(self, position: int, view: memoryview) -> int:
        data = self.read_at(position, len(view))
        view[: len(data)] = data
        return len(data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        data = self._content.data
        position = len(data)
        for buffer in buffers:
            data += buffer
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._content.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        data = self._content.data
        del data[size:]
        data.extend(bytes(size - len(data)))

    def sync(self) -> None:
        self._content.synced = bytes(self._content.data)

    def hold(self) -> None:
        pass  # who refers to the content can read it ever after

    def close(self) -> None:
        pass


class ReplicaDisk:
    """See `Disk` in ports; and what a node keeps beside its log."""

    def __init__(self, directory_id: int) -> None:
        self.directory_id = directory_id
        self.start_offset = Offset(0)  # of the log, as in its checkpoint
        self.high_watermark = Offset(0)  # the same
        self.lost_power = False  # since its node has registered
        self._files: dict[str, Content] = {}
        self._folders: dict[str, set[str]] = {"": set()}

    def lose_power(self, draw: Draw) -> None:
        self.lost_power = True
        for path in sorted(self._files):
            content = self._files[path]
            data, synced = content.data, content.synced
            if data == synced:
                continue
            if data.startswith(synced):
                del data[len(synced) + draw(len(data) - len(synced) + 1) :]
            elif draw(2):
                data[:] = synced
            content.synced = bytes(data)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        content = self._files.get(path)
        if content is None:
            if not create:
                raise DiskError(path, "no such file")
            content = self._files[path] = Content()
            folder, _, name = path.rpartition("/")
            self._folders[folder].add(name)
        return StoredFile(path, content)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._folders

    def is_directory(self, path: str) -> bool:
        return path in self._folders

    def size(self, path: str) -> int:
        return len(self._files[path].data)

    def modified_ms(self, path: str) -> int:
        return 0

    def signature(self, path: str) -> str:
        return ""

    def names(self, directory: str) -> list[str]:
        return sorted(self._folders[directory])

    def make_directory(self, path: str) -> None:
        self._folders.setdefault(path, set())

    def read(self, path: str) -> bytes:
        content = self._files.get(path)
        if content is None:
            raise DiskError(path, "no such file")
        return bytes(content.data)

    def write_whole(self, path: str, data: bytes) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        file.append([data])
        file.sync()

    def rename(self, source: str, target: str) -> None:
        content = self._files.pop(source)
        self.remove(target)
        folder, _, name = source.rpartition("/")
        self._folders[folder].discard(name)
        folder, _, name = target.rpartition("/")
        self._folders[folder].add(name)
        self._files[target] = content

    def remove(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            folder, _, name = path.rpartition("/")
            self._folders[folder].discard(name)

    def remove_tree(self, path: str) -> None:
        raise AssertionError("no partition is deleted")

    def sync_directory(self, path: str) -> None:
        pass

    def sync_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            if path in self._files:
                content = self._files[path]
                content.synced = bytes(content.data)

    def lock(self, path: str) -> File:
        raise AssertionError("a single log needs no lock")

    def free_bytes(self, path: str) -> int:
        return 2**40

    def total_bytes(self, path: str) -> int:
        return 2**40

    def watch(self, directory: str, failed: Callable[[], None]) -> None:
        pass

    async def sync(self, files: Sequence[File]) -> None:
        raise AssertionError("the run syncs, in virtual time")

    async def remove_trees(self, paths: Sequence[str]) -> None:
        raise AssertionError("no partition is deleted")

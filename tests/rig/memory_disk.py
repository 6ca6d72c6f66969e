"""A disk in memory that can crash at any call, and that knows what a crash leaves behind.

Two kinds of crash. A killed process leaves what reached the page cache. A power loss leaves what
was synced, and of the rest whatever chance has it: bytes of a file up to some point or as zeros,
names of a directory or not.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.world.errors import DiskError
from penstock.world.failures import Failures
from penstock.world.ports import Buffer, File


class Crashed(BaseException):
    """The process is gone: not an error that code could handle."""


@dataclass(slots=True, eq=False)
class Node:
    """One file: what the page cache holds, and what would survive a power loss."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    modified_ms: int = 0  # as a test says


@dataclass(slots=True)
class Faults:
    """`crash_at` counts down over calls that change something; `fail_at` likewise, but once.

    `full` fails every call that needs room, until it is lifted: a full disk. `syncs_fail` fails
    every sync.
    """

    crash_at: int | None = None
    fail_at: int | None = None
    full: bool = False
    syncs_fail: bool = False
    calls: int = 0
    crashed: bool = False

    def strike(self, path: str) -> None:
        """Before a change of `path`: nothing, a DiskError, or the end."""
        if self.crashed:
            raise Crashed
        self.calls += 1
        if self.crash_at is not None and self.calls > self.crash_at:
            self.crashed = True
            raise Crashed
        if self.fail_at is not None and self.calls == self.fail_at + 1:
            raise DiskError(path, "no space left", full=True)

    def strike_growth(self, path: str) -> None:
        """The same before a change that needs room."""
        self.strike(path)
        if self.full:
            raise DiskError(path, "no space left", full=True)


class MemoryFile:
    def __init__(self, disk: "MemoryDisk", path: str, node: Node) -> None:
        self.path = path
        self.closed = False
        self._disk = disk
        self._node = node

    @property
    def size(self) -> int:
        return len(self._node.data)

    def read_at(self, position: int, count: int) -> bytes:
        assert not self.closed, self.path
        self._disk.reads += 1
        return bytes(self._node.data[position : position + count])

    def read_into(self, position: int, view: memoryview) -> int:
        data = self.read_at(position, len(view))
        view[: len(data)] = data
        return len(data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        assert not self.closed, self.path
        position = self.size
        data = b"".join(bytes(buffer) for buffer in buffers)
        try:
            self._disk.faults.strike_growth(self.path)
        except Crashed:
            self._node.data += data[: len(data) // 2]  # torn
            raise
        self._node.data += data
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.faults.strike(self.path)
        self._node.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        assert not self.closed, self.path
        self._disk.faults.strike(self.path)
        del self._node.data[size:]

    def sync(self) -> None:
        assert not self.closed, self.path
        self._disk.strike_sync(self.path)
        self._node.synced = bytes(self._node.data)

    def hold(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class MemoryDisk:
    """Files by path; directories are the paths that were made."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.reads = 0  # of open files, so far
        self.files: dict[str, Node] = {}
        self.directories: set[str] = {"/"}
        self._lasting: dict[str, Node] = {}  # names as a power loss leaves them
        self._lasting_directories: set[str] = {"/"}
        self._failures = Failures()
        self._moves: list[tuple[str, str]] = []  # directories renamed since their parent's sync

    def after_kill(self) -> "MemoryDisk":
        """What the next process finds when this one was killed."""
        left = MemoryDisk()
        nodes = (*self.files.values(), *self._lasting.values())
        copies = {
            id(node): Node(bytearray(node.data), node.synced, node.modified_ms) for node in nodes
        }
        left.files = {path: copies[id(node)] for path, node in self.files.items()}
        left.directories = set(self.directories)
        left._lasting = {path: copies[id(node)] for path, node in self._lasting.items()}
        left._lasting_directories = set(self._lasting_directories)
        left._moves = list(self._moves)
        return left

    def after_power_loss(self, chance: random.Random) -> "MemoryDisk":
        """What the next process finds when the machine lost power."""
        if self._moves:
            return self._with_moves_decided(chance).after_power_loss(chance)
        left = MemoryDisk()
        left.directories = left._lasting_directories = {
            path
            for path in sorted(self.directories | self._lasting_directories)
            if path in self._lasting_directories or chance.random() < 0.5
        }
        found: dict[str, Node | None] = {}
        for path in sorted(self.files.keys() | self._lasting.keys()):
            now, lasting = self.files.get(path), self._lasting.get(path)
            found[path] = lasting if now is lasting or chance.random() < 0.5 else now
        # A rename is kept or lost as a whole: the file has one of its names, or both for a while.
        there = {id(node) for node in self.files.values()}
        named = {id(node) for node in found.values()}
        for path, node in self._lasting.items():
            if id(node) in there and id(node) not in named:
                found[path] = node
        for path, node in found.items():
            if node is not None and parent(path) in left.directories:
                data = survivors(node, chance)
                left.files[path] = Node(bytearray(data), data)
        left._lasting = dict(left.files)
        return left

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        node = self.files.get(path)
        if node is None:
            if not create or parent(path) not in self.directories:
                raise DiskError(path, "no such file")
            self.faults.strike_growth(path)
            node = self.files[path] = Node()
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def is_directory(self, path: str) -> bool:
        return path in self.directories

    def size(self, path: str) -> int:
        return len(self.files[path].data)

    def modified_ms(self, path: str) -> int:
        return self.files[path].modified_ms

    def signature(self, path: str) -> str:
        return str(self.files[path].modified_ms)

    def names(self, directory: str) -> list[str]:
        prefix = directory.rstrip("/") + "/"
        below = [path for path in (*self.files, *self.directories) if path.startswith(prefix)]
        return sorted({path[len(prefix) :].split("/")[0] for path in below} - {""})

    def make_directory(self, path: str) -> None:
        while path and path not in self.directories:
            self.faults.strike_growth(path)
            self.directories.add(path)
            path = parent(path)

    def read(self, path: str) -> bytes:
        node = self.files.get(path)
        if node is None:
            raise DiskError(path, "no such file")
        return bytes(node.data)

    def write_whole(self, path: str, data: bytes) -> None:
        temporary = self.open(f"{path}.tmp", create=True)
        temporary.truncate(0)
        temporary.append([data])
        temporary.sync()
        self.rename(f"{path}.tmp", path)
        self.sync_directory(parent(path))

    def rename(self, source: str, target: str) -> None:
        self.faults.strike(source)
        if source in self.files:
            self.files[target] = self.files.pop(source)
            return
        move_below(self.files, source, target)
        self.directories.discard(source)
        self.directories.add(target)
        self._moves.append((source, target))

    def remove(self, path: str) -> None:
        if path in self.files:
            self.faults.strike(path)
            del self.files[path]

    def remove_tree(self, path: str) -> None:
        for file in sorted(self.files):
            if file.startswith(f"{path}/"):
                self.remove(file)
        self.directories -= {
            one for one in self.directories if one == path or one.startswith(f"{path}/")
        }

    def strike_sync(self, path: str) -> None:
        self.faults.strike(path)
        if self.faults.syncs_fail:
            self._failures.note(path)
            raise DiskError(path, "Input/output error")

    def watch(self, directory: str, failed: Callable[[], None]) -> None:
        self._failures.watch(directory, failed)

    def sync_directory(self, path: str) -> None:
        self.strike_sync(path)
        for source, target in [move for move in self._moves if parent(move[0]) == path]:
            self._make_move_last(source, target)

        def here(paths: "dict[str, Node] | set[str]") -> set[str]:
            return {one for one in paths if parent(one) == path}

        for gone in here(self._lasting) - here(self.files):
            del self._lasting[gone]
        for name in here(self.files):
            self._lasting[name] = self.files[name]
        self._lasting_directories -= here(self._lasting_directories) - here(self.directories)
        self._lasting_directories |= here(self.directories)

    def _make_move_last(self, source: str, target: str) -> None:
        move_below(self._lasting, source, target)
        self._moves.remove((source, target))
        if source in self._lasting_directories:
            self._lasting_directories -= {source}
            self._lasting_directories |= {target}

    def _with_moves_decided(self, chance: random.Random) -> "MemoryDisk":
        """This disk, each renaming of a directory lasting, or undone with all that followed."""
        left = self.after_kill()
        kept = chance.randrange(len(left._moves) + 1)
        for source, target in reversed(left._moves[kept:]):
            for path in [path for path in left.files if path.startswith(f"{source}/")]:
                del left.files[path]
            move_below(left.files, target, source)
            left.directories -= {target}
            left.directories |= {source}
            left._moves.remove((source, target))
        for source, target in list(left._moves):
            left._make_move_last(source, target)
        return left

    def sync_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            if path in self.directories:
                self.sync_directory(path)
            else:
                self.open(path).sync()

    def lock(self, path: str) -> MemoryFile:
        return self.open(path, create=True)

    def free_bytes(self, path: str) -> int:
        return 2**30

    def total_bytes(self, path: str) -> int:
        return 2**31

    async def sync(self, files: Sequence[File]) -> None:
        for file in files:
            assert isinstance(file, MemoryFile), "a file of another disk"
            if not file.closed:
                file.sync()

    async def remove_trees(self, paths: Sequence[str]) -> None:
        self.remove_all(paths)

    def remove_all(self, paths: Sequence[str]) -> None:
        """What `remove_trees` does, for tests without a loop."""
        for path in paths:
            self.remove(path)
            self.remove_tree(path)


def move_below(files: dict[str, Node], source: str, target: str) -> None:
    for path in [path for path in files if path.startswith(f"{source}/")]:
        files[target + path[len(source) :]] = files.pop(path)


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def survivors(node: Node, chance: random.Random) -> bytes:
    """The bytes of a file after a power loss: unsynced ones kept, lost, cut short or zeroed."""
    data, synced = bytes(node.data), node.synced
    if data == synced:
        return data
    fate = chance.randrange(4)
    if fate == 0 or not data.startswith(synced):
        return synced if chance.random() < 0.5 else data
    kept = chance.randrange(len(synced), len(data) + 1)
    if fate == 1:
        return data[:kept]
    if fate == 2:
        return data[:kept] + bytes(len(data) - kept)
    return data

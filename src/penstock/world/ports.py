"""The ports: everything a node may ask of the outside, and nothing else.

`world/real.py` gives the real ones; the simulator gives its own. A node is built on a `World` and
never reaches around it, so what is true in the simulator is true of the code that ships. Start
reading at `World`.

Two kinds of call. `Disk` and `File` are synchronous: they are the page cache, and handing 16 KiB
to a thread costs more than writing it. What must not stall the loop (`Disk.sync`, `Network`,
`Offload`) is a coroutine. Waiting is `asyncio.sleep` and `asyncio.timeout`: the simulator
replaces the event loop, so they need no port.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import Protocol, TypeVar

from penstock.model import limit
from penstock.model.lazy_dataclass import dataclass

Item = TypeVar("Item")
Result = TypeVar("Result")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """Time. Pure code is never given a clock, only what it read."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for records and for people. It may jump."""

    def monotonic_ms(self) -> int:
        """Milliseconds that only grow, for deadlines."""

    def monotonic_us(self) -> int:
        """Microseconds that only grow, for what is measured."""


class Entropy(Protocol):
    """The one source of randomness."""

    def random_bytes(self, count: int) -> bytes: ...

    def random_below(self, bound: int) -> int:
        """A number from 0 up to, and without, `bound`."""


class File(Protocol):
    """One open file. Writes reach the page cache, not the disk: see `Disk.sync`."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes in the file, kept in memory: asking costs no system call."""

    def read_at(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position`; fewer only at the end of the file."""

    def read_into(self, position: int, view: memoryview) -> int:
        """Fills `view` from `position` and returns how many bytes there were."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes all buffers at the end and returns the position of the first byte.

        All or nothing: a short or failed write is truncated back before DiskError is raised.
        """

    def write_at(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """fsync, on the calling thread: for start-up, shutdown and rare files. Else `Disk.sync`."""

    def hold(self) -> None:
        """Call before the file's name goes: whoever refers to the file can read it ever after."""

    def close(self) -> None:
        """Closes the descriptor; closing twice is harmless."""


@dataclass(slots=True, kw_only=True)
class FileRange:
    """Bytes of a file that a reply sends without reading them (see wire/codec `Splice`).

    Built per partition of a fetch: not frozen, which makes it several times cheaper to make.
    """

    file: File
    position: int
    byte_count: int


class Disk(Protocol):
    """The file system below the node's directories. Every failure is a DiskError."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written to, in milliseconds since 1970."""

    def signature(self, path: str) -> str:
        """Another one once the file has been written to, replaced, or restored from a copy, even if
        the copy has the times of the original.
        """

    def names(self, directory: str) -> list[str]:
        """What a directory holds, sorted, so that every start walks in one order."""

    def make_directory(self, path: str) -> None:
        """With its parents; one that exists already is fine."""

    def read(self, path: str) -> bytes:
        """A small file, whole."""

    def write_whole(self, path: str, data: bytes) -> None:
        """Replaces a small file at once: temporary file, fsync, rename, fsync of the directory."""

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """A file; one that does not exist is fine."""

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def sync_all(self, paths: Sequence[str]) -> None:
        """fsync of many files and directories at once; returns when all are on disk."""

    def lock(self, path: str) -> File:
        """An exclusive lock held until the file is closed; DiskError when another holds it."""

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def watch(self, directory: str, failed: Callable[[], None]) -> None:
        """Has `failed` called, once, when a write or a sync in the directory has failed, before its
        caller gets the DiskError. A write that found no room and was undone is no failure.
        """

    async def sync(self, files: Sequence[File]) -> None:
        """fsync off the loop, of any number of files; one that is closed meanwhile may be left out.
        A failure is final: never retried, the directory goes offline.
        """

    async def remove_trees(self, paths: Sequence[str]) -> None:
        """Files, and directories with all they hold, off the loop; missing ones are fine.

        DiskError tells of the first that could not be removed; the others were tried.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Stream(Protocol):
    """One connection: bytes in order, both ways. Loss of it is a NetworkError."""

    @property
    def peer(self) -> Address: ...

    async def receive_into(self, view: memoryview) -> int:
        """Waits for at least one byte, put at the view's start; 0 when the peer has closed."""

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        """Returns when all bytes have been handed to the network; they may be reused then.

        `more` is a hint that other bytes follow at once and may travel in the same packet.
        """

    def send_now(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Hands to the network what it takes without a wait; returns the rest, to be sent next.

        Only while nobody is in `send` or `send_file`.
        """

    async def send_file(self, span: FileRange) -> None:
        """As `send`, for bytes of a file; NetworkError when the file turns out to be shorter, and
        FileNotSent when the disk does not give them.
        """

    def close(self) -> None:
        """At once; who waits in a call gets NetworkError. Closing twice is harmless."""


class Listener(Protocol):
    """An address that this process has taken. Connections to it are refused until `listen`."""

    @property
    def address(self) -> Address:
        """Where it listens; the port is the one the system chose when 0 was asked for."""

    def listen(self, accept: Callable[[Stream], None]) -> None:
        """Calls `accept` on the loop for each new connection; NetworkError if that is refused."""

    def close(self) -> None:
        """Accepts no more; accepted streams live on. Closing twice is harmless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """What a listener asks of the system; None leaves it to the system."""

    backlog: int = limit.CONNECTION_BACKLOG
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None


DEFAULT_OPTIONS = SocketOptions()


class Network(Protocol):
    async def bind(self, address: Address, options: SocketOptions = DEFAULT_OPTIONS) -> Listener:
        """Takes an address to listen on; NetworkError when another process has it."""

    async def connect(self, address: Address) -> Stream:
        """NetworkError when it cannot be made; ConnectionRefused, which is one, when the machine
        says that nobody listens there.
        """

    def host_name(self) -> str:
        """What other machines call this one."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What long work yields between two steps of it: others may go first, for so long at least."""

    seconds: float = 0


class Offload(Protocol):
    """Long work off the loop: a child process; inline in the simulator and the fixture."""

    def run(self, work: Callable[..., Result], *arguments: object) -> Awaitable[Result]: ...

    def run_on_disk(
        self, work: Callable[..., Generator[Item | Rest, None, None]], *arguments: object
    ) -> AsyncGenerator[Item, None]:
        """Long work on files: `work(disk, *arguments)`, item by item as it yields them.

        It stands still between an item and the asking for the next one. Closing the generator ends
        the work where it stands. `OffloadError` when whoever did it is gone.
        """

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    clock: Clock
    entropy: Entropy
    disk: Disk
    network: Network
    offload: Offload
    boot_id: str = ""  # another one after each start of the machine; "" where none is known

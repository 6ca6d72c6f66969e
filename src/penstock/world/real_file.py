"""One file of the operating system, and the bound of descriptors that all files share.

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
   it sends from, and the last of the two to go frees the disk. So what keeps count of descriptors
   knows those alone and never a file. A file whose name is gone (`hold`) keeps its descriptor
   until then: it could not be opened again.
5. A file whose sync failed is spoiled too: what the disk holds is unknown.
"""

import errno
import os
from collections.abc import Sequence
from typing import Final

from penstock.world.errors import DiskError
from penstock.world.failures import Failures
from penstock.world.ports import Buffer

BUFFERS_PER_WRITE_MAX: Final = 1024  # IOV_MAX of Linux
CLOSED: Final = -1

SHORT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
# Space, or descriptors, or memory: the disk itself is sound, and the same call may go well later.
SHORT_OF_ROOM: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
# Of sendfile: the file does not give its bytes. All others are told of the connection.
NOT_READ: Final = frozenset(
    {
        errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO), errno.ENODATA,
        errno.ENODEV, errno.ENXIO, errno.ESTALE,
    }
)  # fmt: skip


class Descriptor:
    """That of one file, open or CLOSED."""

    __slots__ = ("fd", "held", "pins", "used")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.held = False
        self.pins = 0
        self.used = True  # since eviction came by

    @property
    def evictable(self) -> bool:
        return self.pins == 0 and not self.held

    def close(self) -> None:
        os.close(self.fd)
        self.fd = CLOSED


class Descriptors:
    """The open descriptors of one disk, at most `open_max`; the least used one gives way.

    Second chance: one used since the last round is passed over once, which costs a flag on the way
    in and no reordering.
    """

    __slots__ = ("failures", "open", "open_max")

    def __init__(self, open_max: int) -> None:
        assert open_max > 0, open_max
        self.open_max = open_max
        self.failures = Failures()
        self.open: dict[Descriptor, None] = {}

    def make_room(self) -> None:
        """Call before opening another; more than `open_max` stay open only while none can go."""
        while len(self.open) >= self.open_max and self._evict():
            pass

    def open_fd(self, path: str, flags: int) -> int:
        """A new descriptor. If the process has no more, one of those that are open gives way."""
        while True:
            try:
                return os.open(path, flags, 0o666)  # what umask leaves of it, if the file is new
            except OSError as error:
                if error.errno not in SHORT_OF_DESCRIPTORS or not self._evict():
                    raise

    def remember(self, descriptor: Descriptor) -> None:
        self.make_room()
        self.open[descriptor] = None

    def close(self, descriptor: Descriptor) -> None:
        descriptor.close()
        self.open.pop(descriptor, None)

    def _evict(self) -> bool:
        """Closes the least used one that may go; whether there was one."""
        for _ in range(2 * len(self.open)):
            oldest = next(iter(self.open))
            del self.open[oldest]
            if oldest.evictable and not oldest.used:
                oldest.close()
                return True
            oldest.used = False
            self.open[oldest] = None
        return False


class RealFile:
    """One file; see the module's invariants."""

    __slots__ = ("_closed", "_descriptor", "_descriptors", "_flags", "_spoiled", "path", "size")

    def __init__(self, descriptors: Descriptors, path: str, fd: int, flags: int) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self._descriptor = Descriptor(fd)
        self._descriptors = descriptors
        self._flags = flags
        self._spoiled = False
        self._closed = False

    def __del__(self) -> None:
        # Without a look at the pins: a loop that ends during a sync leaves its file pinned.
        if self._descriptor.fd != CLOSED:
            self._descriptors.close(self._descriptor)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def pins(self) -> int:
        return self._descriptor.pins

    def descriptor(self) -> int:
        """The open descriptor, good until the next call on any file of this disk."""
        descriptor = self._descriptor
        descriptor.used = True
        if descriptor.fd == CLOSED:
            self._reopen()
        return descriptor.fd

    def count_descriptor(self) -> None:
        """From here on the descriptor may be closed for another's sake."""
        self._descriptors.remember(self._descriptor)

    def read_at(self, position: int, count: int) -> bytes:
        assert position >= 0, position
        assert count >= 0, count
        try:
            data = os.pread(self.descriptor(), count, position)
        except OSError as error:
            raise disk_error(self.path, error) from error
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
        except OSError as error:
            raise disk_error(self.path, error) from error
        return filled

    def append(self, buffers: Sequence[Buffer]) -> int:
        position = self.size
        self._refuse_if_spoiled()
        try:
            end = self._write_all(buffers, position)
        except OSError as error:
            self._restore(position)
            raise self._failed(error) from error
        self.size = end
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        assert 0 <= position <= self.size, (position, self.size)
        self._refuse_if_spoiled()
        try:
            end = self._write_all([data], position)
        except OSError as error:
            self._restore(self.size)
            raise self._failed(error) from error
        self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        assert size >= 0, size
        self._refuse_if_spoiled()
        try:
            os.ftruncate(self.descriptor(), size)
        except OSError as error:
            raise self._failed(error) from error
        self.size = size

    def sync(self) -> None:
        self._refuse_if_spoiled()
        try:
            os.fsync(self.descriptor())
        except OSError as error:
            raise self.spoil(error) from error

    def hold(self) -> None:
        self.descriptor()
        self._descriptor.held = True

    def close(self) -> None:
        self._closed = True
        if self._descriptor.pins == 0:
            self.release()

    def pin(self) -> int:
        """The descriptor, kept open until `unpin`, for an fsync on another thread."""
        self._refuse_if_spoiled()
        fd = self.descriptor()
        self._descriptor.pins += 1
        return fd

    def unpin(self) -> None:
        descriptor = self._descriptor
        assert descriptor.pins > 0
        descriptor.pins -= 1
        if self._closed and descriptor.pins == 0:
            self.release()

    def spoil(self, error: OSError) -> DiskError:
        """Refuses every write from now on; the error to tell those who waited for the sync."""
        self._spoiled = True
        self._descriptors.failures.note(self.path)
        return DiskError(self.path, error.strerror or str(error))  # also if room was what lacked

    def release(self) -> None:
        """Gives the descriptor back; a file that is not closed opens another when it needs one."""
        assert self._descriptor.pins == 0
        if self._descriptor.fd != CLOSED:
            self._descriptors.close(self._descriptor)

    def _reopen(self) -> None:
        if self._closed:
            raise DiskError(self.path, "the file has been closed", gone=True)
        try:
            self._descriptor.fd = self._descriptors.open_fd(self.path, self._flags)
        except OSError as error:
            raise disk_error(self.path, error) from error
        self.count_descriptor()

    def _read_more(self, position: int, count: int) -> bytes:
        try:
            data = os.pread(self.descriptor(), count, position)
        except OSError as error:
            raise disk_error(self.path, error) from error
        if not data:
            raise DiskError(
                self.path, f"ends at {position}, though {count} more bytes were written"
            )
        return data

    def _write_all(self, buffers: Sequence[Buffer], position: int) -> int:
        """Writes until all is written: a call may take less than it was given (2 GiB, signals)."""
        fd = self.descriptor()
        if len(buffers) == 1:
            only = buffers[0]
            written = os.pwrite(fd, only, position)
            if written == len(only):
                return position + written
        elif len(buffers) <= BUFFERS_PER_WRITE_MAX:
            written = os.pwritev(fd, buffers, position)
            total = sum(map(len, buffers))
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
            self._descriptors.failures.note(self.path)

    def _failed(self, error: OSError) -> DiskError:
        """A write that found no room has been undone by `_restore`; others are failures."""
        failure = disk_error(self.path, error)
        if not failure.full:
            self._descriptors.failures.note(self.path)
        return failure

    def _refuse_if_spoiled(self) -> None:
        if self._spoiled:
            raise DiskError(self.path, "an earlier write or sync failed; its state is unknown")


def disk_error(path: str, error: OSError) -> DiskError:
    return DiskError(
        path,
        error.strerror or str(error),
        full=error.errno in SHORT_OF_ROOM,
        gone=error.errno == errno.ENOENT,
    )

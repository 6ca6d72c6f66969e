"""One TCP connection: a raw non-blocking socket and the loop's add_reader and add_writer.

Streams of asyncio and transports of uvloop copy what they receive and have no sendfile; a socket
of our own takes bytes straight into the caller's buffer and sends from the caller's buffers or
from the page cache. It works on asyncio and uvloop alike. Start reading at `TcpStream`.

The reader stays registered between receives: removing it and adding it again would cost two
system calls a request. It is removed when bytes come and nobody waits for them, which is how a
connection that is not being read pushes back on its peer.

A consumer that reads from the page cache takes megabytes a reply. The kernel adapts the send buffer
to a connection, but keeps it small where the network is quick, so that a reply goes out in many
steps. So the first large range of a file gives the connection a larger one, where `tcp` has found
that the system allows it and nobody asked for another size.

uvloop calls the reader of a connection that was reset once and then never again (libuv stops to
watch what has an error), while asyncio calls it until it is removed. So when that one call brought
the bytes from before the reset, the error has to be asked for; see `wait_readable`.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from penstock.model import limit
from penstock.world.errors import DiskError, FileNotSent, NetworkError, send_error
from penstock.world.ports import Address, Buffer, FileRange
from penstock.world.real_file import NOT_READ, RealFile, disk_error

BUFFERS_PER_SEND_MAX: Final = 1024  # IOV_MAX of Linux
# Linux: do not send a packet of the header alone.
MORE_FOLLOWS: Final[int] = getattr(socket, "MSG_MORE", 0)
# Then the loop gets its turn: a page may come from disk.
FILE_BYTES_PER_SEND_MAX: Final = 1 * limit.MIB
WIDENED_FROM_BYTES: Final = 64 * limit.KIB  # of a range: the buffer of new connections takes less
SEND_BUFFER_BYTES: Final = limit.FILE_SEND_BUFFER_BYTES
RECEIVES_IN_A_ROW_MAX: Final = 8  # then the loop gets its turn, however much has arrived


class TcpStream:
    """One connection; one receiver and one sender at a time."""

    __slots__ = (
        "_drained", "_fd", "_loop", "_readable", "_reading", "_row", "_socket", "_widens",
        "_writable", "closed", "peer", "unproven",
    )  # fmt: skip

    def __init__(self, connected: socket.socket, peer: Address, *, widens: bool = False) -> None:
        self.peer = peer
        self._widens = widens  # the first large range of a file gets a larger send buffer
        self._socket = connected
        self._fd = connected.fileno()
        self._loop = asyncio.get_running_loop()
        self._reading = False  # the reader is registered
        self._readable: asyncio.Future[None] | None = None  # who waits for bytes
        self._writable: asyncio.Future[None] | None = None  # who waits for room
        self._drained = True  # the last receive came up short: asking again would be in vain
        self._row = 0
        self.unproven = False  # bytes came, and nothing has been sent since: it may be reset
        self.closed = False

    async def receive_into(self, view: memoryview) -> int:
        assert len(view) > 0
        while True:
            if self._drained or self._row >= RECEIVES_IN_A_ROW_MAX:
                await self.wait_readable()
                self._row = 0
            if self.closed:
                raise NetworkError(f"{self.peer}: closed")
            try:
                count = self._socket.recv_into(view)
            except (BlockingIOError, InterruptedError):
                self._drained = True
                continue
            except OSError as error:
                raise NetworkError(f"{self.peer}: {error.strerror}") from error
            self._drained = count < len(view)
            self._row += 1
            self.unproven = True
            return count

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        if len(buffers) > BUFFERS_PER_SEND_MAX:
            for start in range(0, len(buffers), BUFFERS_PER_SEND_MAX):
                await self.send(buffers[start : start + BUFFERS_PER_SEND_MAX], more=more)
            return
        flags = MORE_FOLLOWS if more else 0
        sent = self._try_send(buffers, flags)
        total = sum(map(len, buffers))
        while sent < total:
            buffers = rest_of(buffers, sent)
            total -= sent
            await self.wait_writable()
            sent = self._try_send(buffers, flags)

    def send_now(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        assert self._writable is None, "two senders"
        if len(buffers) > BUFFERS_PER_SEND_MAX:
            return buffers
        return rest_of(buffers, self._try_send(buffers, 0))

    async def send_file(self, span: FileRange) -> None:
        file = span.file
        assert isinstance(file, RealFile), "a file of another disk"
        position, end = span.position, span.position + span.byte_count
        if self._widens and span.byte_count > WIDENED_FROM_BYTES:
            self._widen()
        while position < end:
            count = self._try_send_file(file, position, end)
            position += count
            if position < end:
                await self.wait_writable()

    def replace_socket(self, wrap: Callable[[socket.socket], socket.socket]) -> None:
        """The socket becomes one that `wrap` makes of it, with the same descriptor; see
        `tls_stream`. From then on only waits and `close` are for use.
        """
        self._socket = wrap(self._socket)

    def first_byte(self) -> int | None:
        """What the peer has sent first, which is not taken; None if it has closed."""
        try:
            peeked = self._socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise NetworkError(f"{self.peer}: {error.strerror}") from error
        return peeked[0] if peeked else None

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._forget_reader()
        if self._writable is not None:
            self._loop.remove_writer(self._fd)
        self._socket.close()
        for waiter in (self._readable, self._writable):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _widen(self) -> None:
        self._widens = False
        with contextlib.suppress(OSError):  # of a connection that is closed: the send will tell
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    def _try_send(self, buffers: Sequence[Buffer], flags: int) -> int:
        """How many bytes the socket took: none when it is full."""
        if self.closed:
            raise NetworkError(f"{self.peer}: closed")
        try:
            if len(buffers) == 1:
                sent = self._socket.send(buffers[0], flags)
            else:
                sent = self._socket.sendmsg(buffers, (), flags)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise NetworkError(f"{self.peer}: {error.strerror}") from error
        self.unproven = False
        return sent

    def _try_send_file(self, file: RealFile, position: int, end: int) -> int:
        if self.closed:
            raise NetworkError(f"{self.peer}: closed")
        wanted = min(end - position, FILE_BYTES_PER_SEND_MAX)
        try:
            count = os.sendfile(self._fd, file.descriptor(), position, wanted)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno in NOT_READ:
                raise FileNotSent(disk_error(file.path, error)) from error
            raise NetworkError(f"{self.peer}: {error.strerror}") from error
        except DiskError as error:
            raise send_error(error) from error
        if count == 0:
            raise NetworkError(f"{file.path} ends at {position}, before {end}")
        self.unproven = False
        return count

    async def wait_readable(self) -> None:
        assert self._readable is None, "two receivers"
        if self.closed:
            raise NetworkError(f"{self.peer}: closed")
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)
        elif self.unproven:
            # Sending to a connection that was reset fails, so who replies needs not ask.
            self.unproven = False
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number != 0:
                raise NetworkError(f"{self.peer}: {os.strerror(number)}")
        self._readable = self._loop.create_future()
        try:
            await self._readable
        finally:
            self._readable = None

    def _on_readable(self) -> None:
        waiter = self._readable
        if waiter is None:
            self._forget_reader()
        elif not waiter.done():
            waiter.set_result(None)

    def _forget_reader(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    async def wait_writable(self) -> None:
        assert self._writable is None, "two senders"
        self._writable = self._loop.create_future()
        self._loop.add_writer(self._fd, self._on_writable)
        try:
            await self._writable
        finally:
            self._writable = None
            if not self.closed:
                self._loop.remove_writer(self._fd)

    def _on_writable(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)


def rest_of(buffers: Sequence[Buffer], sent: int) -> list[Buffer]:
    """The buffers without their first `sent` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if sent >= len(buffer):
            sent -= len(buffer)
            continue
        rest.append(memoryview(buffer)[sent:] if sent else buffer)
        sent = 0
    return rest

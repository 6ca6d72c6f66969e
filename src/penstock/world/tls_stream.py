"""One connection with TLS: OpenSSL on the socket of a `TcpStream`, which goes on to do the waiting.

OpenSSL reads from and writes to the socket itself (`ssl.SSLSocket`). Memory BIOs in between take as
much CPU for each GB and each small request (measured: docs/adr/0042), at two copies and a buffer
more, and the kernel could not encrypt for them.

A record holds 16 KiB at most. Each read takes one, and each write makes one, with a system call;
so small buffers are joined before they are written, and a receive takes several records while there
are any. A record that was shorter than the longest is taken for the last: asking again would cost
an exception.

Copies: received bytes go from OpenSSL's record into the caller's view. Sent buffers are encrypted
from where they are; ranges of files are read first, unless the kernel encrypts (`sends_by_kernel`).

`tls_handshake` makes the connection secure; nothing here may be used before. Start reading at
`TlsStream`.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from penstock.model import limit
from penstock.world.errors import DiskError, FileNotSent, NetworkError, send_error
from penstock.world.ports import Address, Buffer, FileRange
from penstock.world.real_file import NOT_READ, RealFile, disk_error
from penstock.world.tcp_stream import TcpStream

RECORD_BYTES_MAX: Final = 16 * limit.KIB
RECORDS_IN_A_ROW_MAX: Final = 32  # then the loop gets its turn, however much has arrived
SENT_IN_A_ROW_MAX: Final = 1 * limit.MIB  # the same, for what is sent
FILE_BYTES_READ: Final = 256 * limit.KIB  # at once, to be sent
# Linux: what setsockopt is told to let the kernel encrypt, and getsockopt to say whether it does:
# version and cipher. To ask for more, one would have to know how many bytes the keys of the cipher
# have: any other number is refused.
SOL_TLS: Final = 282
TLS_TX: Final = 1
TLS_INFO_BYTES: Final = 4


class TlsStream:
    """See `Stream` in ports; one receiver and one sender at a time."""

    __slots__ = ("_drained", "_row", "_secured", "sends_by_kernel", "tcp")

    def __init__(self, tcp: TcpStream) -> None:
        self.tcp = tcp
        self.sends_by_kernel = False
        self._secured: ssl.SSLSocket | None = None
        self._drained = False  # nothing is left to be read without a wait
        self._row = 0

    @property
    def peer(self) -> Address:
        return self.tcp.peer

    @property
    def certificate(self) -> bytes | None:
        """The peer's, in DER, which was verified; None if it has shown none."""
        return None if self._secured is None else self._secured.getpeercert(binary_form=True)

    @property
    def version(self) -> str | None:
        """Of TLS, as `TLSv1.3`."""
        return None if self._secured is None else self._secured.version()

    async def receive_into(self, view: memoryview) -> int:
        assert len(view) > 0
        while True:
            if self._drained:
                await self.tcp.wait_readable()
                self._row = 0
            elif self._row >= RECORDS_IN_A_ROW_MAX:
                await asyncio.sleep(0)
                self._row = 0
            count = self._take(view)
            if count is not None:
                return count

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        for piece in joined(buffers):
            await self._send(piece)

    def send_now(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        pieces = joined(buffers)
        for index, piece in enumerate(pieces):
            sent = self._try_send(piece)
            if sent < len(piece):
                # OpenSSL holds a record of it, and has to be given the same bytes next.
                return [memoryview(piece)[sent:], *pieces[index + 1 :]]
        return []

    async def send_file(self, span: FileRange) -> None:
        position, end = span.position, span.position + span.byte_count
        if self.sends_by_kernel:
            await self._send_by_kernel(span)
            return
        while position < end:
            wanted = min(end - position, FILE_BYTES_READ)
            try:
                data = span.file.read_at(position, wanted)
            except DiskError as error:
                raise send_error(error) from error
            if len(data) < wanted:
                raise NetworkError(f"{span.file.path} ends at {position + len(data)}, before {end}")
            await self._send(data)
            position += wanted

    def close(self) -> None:
        secured, self._secured = self._secured, None
        if secured is not None and not self.tcp.closed:
            # Tells the peer that this is the end, if there is room; its reply is not waited for.
            with contextlib.suppress(OSError, ValueError):
                secured.unwrap()
        self.tcp.close()

    def secure(self, secured: ssl.SSLSocket) -> None:
        """The handshake is done; from here on bytes can be received and sent."""
        self._secured = secured
        self.sends_by_kernel = kernel_encrypts(secured)

    def _take(self, view: memoryview) -> int | None:
        """How many bytes were read, 0 at the end; None when there are none yet."""
        secured = self._usable()
        filled = 0
        try:
            while filled < len(view):
                count = secured.recv_into(view[filled:] if filled else view)
                self.tcp.unproven = True
                if count == 0:
                    return filled  # who asks again is told again
                filled += count
                self._row += 1
                self._drained = count < RECORD_BYTES_MAX and secured.pending() == 0
                if self._drained or self._row >= RECORDS_IN_A_ROW_MAX:
                    break
        except ssl.SSLWantReadError:
            self._drained = True
            return filled or None
        except OSError as error:
            if filled:
                return filled  # the error comes again
            raise NetworkError(f"{self.peer}: {reason_of(error)}") from error
        return filled

    async def _send(self, piece: Buffer) -> None:
        sent = self._try_send(piece)
        while sent < len(piece):
            piece = memoryview(piece)[sent:]
            if sent < SENT_IN_A_ROW_MAX:
                await self.tcp.wait_writable()
            else:
                await asyncio.sleep(0)
            sent = self._try_send(piece)

    def _try_send(self, piece: Buffer) -> int:
        """How many bytes were taken: fewer than all when the socket is full."""
        secured = self._usable()
        view, sent = memoryview(piece), 0
        try:
            while sent < len(view) and sent < SENT_IN_A_ROW_MAX:
                sent += secured.send(view[sent:] if sent else view)
        except ssl.SSLWantWriteError:
            pass
        except OSError as error:
            raise NetworkError(f"{self.peer}: {reason_of(error)}") from error
        self.tcp.unproven = False
        return sent

    async def _send_by_kernel(self, span: FileRange) -> None:
        file = span.file
        assert isinstance(file, RealFile), "a file of another disk"
        position, end = span.position, span.position + span.byte_count
        while position < end:
            count = self._try_send_file(file, position, end)
            position += count
            if position < end:
                await self.tcp.wait_writable()

    def _try_send_file(self, file: RealFile, position: int, end: int) -> int:
        descriptor = self._usable().fileno()
        try:
            count = os.sendfile(
                descriptor, file.descriptor(), position, min(end - position, SENT_IN_A_ROW_MAX)
            )
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
        self.tcp.unproven = False
        return count

    def _usable(self) -> ssl.SSLSocket:
        if self._secured is None or self.tcp.closed:
            raise NetworkError(f"{self.peer}: closed")
        return self._secured


def joined(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer pieces: small ones that follow each other become one."""
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        if len(buffer) == 0:
            continue
        if small and (len(buffer) >= RECORD_BYTES_MAX or small_bytes >= RECORD_BYTES_MAX):
            pieces.append(b"".join(small))
            small, small_bytes = [], 0
        if len(buffer) >= RECORD_BYTES_MAX:
            pieces.append(buffer)
        else:
            small.append(buffer)
            small_bytes += len(buffer)
    if len(small) == 1:
        pieces.append(small[0])
    elif small:
        pieces.append(b"".join(small))
    return pieces


def kernel_encrypts(secured: socket.socket) -> bool:
    """Whether the kernel has been given the keys for what is sent, so that it can be a file."""
    try:
        return len(secured.getsockopt(SOL_TLS, TLS_TX, TLS_INFO_BYTES)) > 0
    except OSError:
        return False


def reason_of(error: OSError) -> str:
    """What OpenSSL, or the system, says went wrong, in plain words."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    reason = (error.reason or "TLS failed").replace("_", " ").lower()
    verified = getattr(error, "verify_message", None)
    return f"{reason}: {verified}" if verified else reason

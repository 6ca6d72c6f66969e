"""TCP on raw non-blocking sockets: listening and connecting. `tcp_stream` is what comes of it."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable

from penstock.model import limit
from penstock.model.host_address import comparable_host
from penstock.world.descriptors import connection_descriptor_max
from penstock.world.errors import ConnectionRefused, NetworkError
from penstock.world.ports import DEFAULT_OPTIONS, Address, SocketOptions, Stream
from penstock.world.tcp_stream import TcpStream

logger = logging.getLogger(__name__)

SEND_BUFFER_BOUND = "/proc/sys/net/core/wmem_max"
SHOWN_HOST_MAX = 100  # characters of a host name in a message
ACCEPT_PAUSE_S = 0.1  # when the process has run out of descriptors


class TcpListener:
    """One bound socket; see `Listener` in ports."""

    def __init__(self, bound: socket.socket, *, backlog: int, widens: bool = False) -> None:
        self.address = address_of(bound.getsockname())
        self._socket = bound
        self._backlog = backlog
        self._widens = widens  # send buffers: see `tcp_stream`
        self._accept: Callable[[Stream], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        self._descriptor_max = connection_descriptor_max()
        self._short = False  # the last accept failed for lack of something, and it was told
        self._closed = False

    def listen(self, accept: Callable[[Stream], None]) -> None:
        assert self._accept is None, "a listener listens once"
        try:
            self._socket.listen(self._backlog)
        except OSError as error:
            # Two processes can bind an address on which neither listens yet: one of them gets here.
            raise NetworkError(f"cannot listen on {self.address}: {error.strerror}") from error
        self._accept = accept
        self._start()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._resume is not None:
            self._resume.cancel()
        elif self._accept is not None:
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _start(self) -> None:
        self._resume = None
        self._loop.add_reader(self._socket.fileno(), self._on_connection)

    def _on_connection(self) -> None:
        assert self._accept is not None
        for _ in range(limit.CONNECTION_BACKLOG):
            if self._closed:
                return
            try:
                connected, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory. The connection stays in the backlog and the
                # socket readable, so without a pause this would spin.
                self._log_shortage(error.strerror)
                self._loop.remove_reader(self._socket.fileno())
                self._resume = self._loop.call_later(ACCEPT_PAUSE_S, self._start)
                return
            if connected.fileno() > self._descriptor_max:
                # Without a descriptor for its files the node could not go on serving the others.
                self._log_shortage("the descriptors left are kept for files")
                connected.close()
                continue
            if self._short:
                self._short = False
                logger.info("accepting=again listener=%s", self.address)
            prepare(connected)
            self._accept(TcpStream(connected, peer_address(peer), widens=self._widens))

    def _log_shortage(self, reason: str | None) -> None:
        """Once until a connection is accepted again."""
        if not self._short:
            self._short = True
            logger.error("accepting=failed listener=%s reason=%s", self.address, reason)


class TcpNetwork:
    async def bind(self, address: Address, options: SocketOptions = DEFAULT_OPTIONS) -> TcpListener:
        family, target = await resolve(address)
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted sockets inherit these, and the window that TCP offers depends on them.
            if options.send_buffer_bytes is not None:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
            if options.receive_buffer_bytes is not None:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
            bound.bind(target)
        except OSError as error:
            bound.close()
            raise NetworkError(f"cannot listen on {address}: {error.strerror}") from error
        widens = options.send_buffer_bytes is None and allows_large_send_buffers()
        return TcpListener(bound, backlog=options.backlog, widens=widens)

    async def connect(self, address: Address) -> TcpStream:
        family, target = await resolve(address)
        connecting = socket.socket(family, socket.SOCK_STREAM)
        try:
            prepare(connecting)
            await asyncio.get_running_loop().sock_connect(connecting, target)
        except OSError as error:
            connecting.close()
            # asyncio puts a text of its own in the place of the system's.
            reason = os.strerror(error.errno) if error.errno else error.strerror
            kind = ConnectionRefused if error.errno == errno.ECONNREFUSED else NetworkError
            raise kind(f"cannot connect to {address}: {reason}") from error
        except BaseException:
            connecting.close()
            raise
        return TcpStream(connecting, address)

    def host_name(self) -> str:
        return socket.gethostname()


def allows_large_send_buffers() -> bool:
    """Linux cuts a size that is set to its bound, and from then on adapts it no more: where the
    bound is low, as it is by default, a buffer that is left to the system can grow further.
    """
    try:
        with open(SEND_BUFFER_BOUND, encoding="ascii") as file:
            return int(file.read()) >= limit.FILE_SEND_BUFFER_BYTES
    except (OSError, ValueError):
        return False


def prepare(connection: socket.socket) -> None:
    connection.setblocking(False)
    with contextlib.suppress(OSError):
        # A reply must not wait for the ack of the one before. Refused by a peer already gone.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def resolve(address: Address) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The first address that the name has; numbers and the empty host cost no look-up."""
    host = address.host or "0.0.0.0"
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return family, (host, address.port)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NetworkError(f"cannot resolve {_shown(host)}: {error.strerror}") from error
    except ValueError as error:
        # A UnicodeError, mostly: of a part between dots that is empty or too long.
        raise NetworkError(f"cannot resolve {_shown(host)}: this is no host name") from error
    # IPv4 first: "localhost" must reach a node that listens on 127.0.0.1.
    family, _, _, _, target = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(target[0]), int(target[1]))


def _shown(host: str) -> str:
    """A host name in a message: short, on one line."""
    printable = host if host.isprintable() else ascii(host)
    return printable if len(printable) <= SHOWN_HOST_MAX else f"{printable[:SHOWN_HOST_MAX]}..."


def address_of(name: tuple[str, int]) -> Address:
    return Address(host=name[0], port=name[1])


def peer_address(name: tuple[str, int]) -> Address:
    """Bounds and access control know clients by their hosts, whatever the listener speaks."""
    host, port = name[0], name[1]
    return Address(host=comparable_host(host) if ":" in host else host, port=port)

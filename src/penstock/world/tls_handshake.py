"""How a connection becomes secure, or is refused: bounded in time, memory and shares of the loop.

    plain text          known by its first byte; nothing is sent back, since nobody would read it
    a resumed session   its certificate was verified at the first handshake: it must still be valid
    a failed handshake  OpenSSL has sent an alert; the peer gets a moment to read it
    a slow peer         TLS_HANDSHAKE_MS_MAX for all of it
    many at once        one step of one handshake in each turn of the loop (`turns`): a signature
                        with an RSA key takes a millisecond

OpenSSL bounds what a peer can make it hold. Apart from `tls_stream`, which may be compiled: this
waits while it handles exceptions (docs/adr/0015). Start reading at `shake_hands`.
"""

import asyncio
import contextlib
import socket
import ssl
from time import time as wall_s  # as OpenSSL asks the system for the time, without a port

from penstock.model import limit
from penstock.world.errors import HandshakeFailed, NetworkError
from penstock.world.tls_stream import TlsStream, reason_of

HANDSHAKE_RECORD = 0x16


async def shake_hands(
    stream: TlsStream, context: ssl.SSLContext, turns: asyncio.Lock, *, host: str | None
) -> None:
    """Returns when the connection is secure. HandshakeFailed when the peer is refused or refuses,
    NetworkError when it goes away. `host` is that of the server; None on the server's side.
    """
    try:
        async with asyncio.timeout(limit.TLS_HANDSHAKE_MS_MAX / 1000):
            if host is None:
                await _refuse_plain_text(stream)
            await _shake_hands(stream, context, turns, host)
    except TimeoutError as error:
        reason = f"no TLS handshake within {limit.TLS_HANDSHAKE_MS_MAX} ms"
        raise HandshakeFailed(stream.peer, reason) from error


async def _refuse_plain_text(stream: TlsStream) -> None:
    await stream.tcp.wait_readable()
    if stream.tcp.closed:
        raise NetworkError(f"{stream.peer}: closed")
    first = stream.tcp.first_byte()
    if first is None:
        raise NetworkError(f"{stream.peer}: closed before it said anything")
    if first != HANDSHAKE_RECORD:
        raise HandshakeFailed(stream.peer, "plain text on a listener of TLS")


async def _shake_hands(
    stream: TlsStream, context: ssl.SSLContext, turns: asyncio.Lock, host: str | None
) -> None:
    secured = _wrap(stream, context, host)
    while True:
        try:
            async with turns:
                wanted = _step(secured)
                await asyncio.sleep(0)
        except OSError as error:
            failed = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)
            if not failed:
                raise NetworkError(f"{stream.peer}: {reason_of(error)}") from error
            await _let_read(stream, secured)
            reason = f"TLS handshake failed: {reason_of(error)}"
            raise HandshakeFailed(stream.peer, reason) from error
        if stream.tcp.closed:
            raise NetworkError(f"{stream.peer}: closed")
        stream.tcp.unproven = True
        if wanted is None:
            if host is None and _resumes_expired(secured):
                # OpenSSL forgets the session with this connection: the next one is a new handshake.
                reason = "TLS handshake failed: the certificate of a resumed session has expired"
                raise HandshakeFailed(stream.peer, reason)
            stream.secure(secured)
            return
        if wanted is ssl.SSLWantReadError:
            await stream.tcp.wait_readable()
        else:
            await stream.tcp.wait_writable()
        if stream.tcp.closed:
            raise NetworkError(f"{stream.peer}: closed")


def _resumes_expired(secured: ssl.SSLSocket) -> bool:
    """Whether the client was let in by a certificate that has expired since."""
    if not secured.session_reused:
        return False
    expires = (secured.getpeercert() or {}).get("notAfter")
    return isinstance(expires, str) and ssl.cert_time_to_seconds(expires) < wall_s()


def _wrap(stream: TlsStream, context: ssl.SSLContext, host: str | None) -> ssl.SSLSocket:
    wrapped: list[ssl.SSLSocket] = []

    def wrap(plain: socket.socket) -> socket.socket:
        secured = context.wrap_socket(
            plain,
            server_side=host is None,
            server_hostname=host,
            do_handshake_on_connect=False,
        )
        wrapped.append(secured)
        return secured

    try:
        stream.tcp.replace_socket(wrap)
    except (OSError, ValueError) as error:
        raise NetworkError(f"{stream.peer}: {error}") from error
    return wrapped[0]


def _step(secured: ssl.SSLSocket) -> type[ssl.SSLError] | None:
    """What the next step waits for; None when the handshake is done."""
    try:
        secured.do_handshake()
    except ssl.SSLWantReadError:
        return ssl.SSLWantReadError
    except ssl.SSLWantWriteError:
        return ssl.SSLWantWriteError
    except ssl.SSLError:
        raise  # some of them are ValueErrors, too
    except ValueError as error:  # it was closed meanwhile
        raise OSError(str(error)) from error
    return None


async def _let_read(stream: TlsStream, secured: ssl.SSLSocket) -> None:
    """Waits until the peer has closed, or its time is up. With bytes of it unread, closing would
    reset the connection, and the alert that says why would be lost on the way.
    """
    with contextlib.suppress(OSError, ValueError, NetworkError, TimeoutError):
        async with asyncio.timeout(limit.TLS_REFUSED_MS_MAX / 1000):
            secured.shutdown(socket.SHUT_WR)
            left = limit.TLS_REFUSED_BYTES_MAX
            while left > 0:
                await stream.tcp.wait_readable()
                received = len(socket.socket.recv(secured, 64 * limit.KIB))
                if received == 0:
                    return
                left -= received

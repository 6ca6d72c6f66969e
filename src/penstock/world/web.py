"""Addresses of the web: a document from one, off the loop; a small one to another, on it."""

import asyncio
import http.client
import os
import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from typing import IO, Any
from urllib.parse import urlsplit

from penstock.world.errors import NetworkError

WAIT_S_MAX = 10  # for each piece of a document
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r\n]")
LINE_BYTES_MAX = 4096
LINES_MAX = 100  # of an answer, until its status is known
INTERIM = range(100, 200)  # another answer follows
PORTS = {"http": 80, "https": 443}


async def read_address(url: str, *, bytes_max: int, timeout_ms: int) -> bytes:
    """Up to so many bytes of it, over HTTP or HTTPS; NetworkError, without the address, when there
    is no answer, or not all of it in time. Redirections are followed, but for those from HTTPS to
    HTTP.
    """
    connections = _Connections()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await asyncio.to_thread(_read, url, bytes_max, connections)
    except TimeoutError as late:
        raise NetworkError(f"no answer within {timeout_ms} ms") from late
    finally:
        connections.end()


class _Connections:
    """Those of one request, which its thread makes and waits for. The event loop ends them, also
    while they wait: a time-out of a socket is one for each of its pieces.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._ended = False

    def add(self, made: socket.socket) -> None:
        with self._lock:
            if self._ended:
                raise TimeoutError("given up")
            # TLS takes the descriptor away from the socket that it begins with.
            self._sockets.append(made.dup())

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for one in self._sockets:
                with suppress(OSError):  # it has ended already
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._sockets.clear()


class _Plain(http.client.HTTPConnection):
    connections: _Connections

    def connect(self) -> None:
        super().connect()
        self.connections.add(self.sock)


class _Encrypted(http.client.HTTPSConnection, _Plain):
    """The connection that TLS begins with is made by `_Plain`."""


class _Opener(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._made, _Plain), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._made, _Encrypted), req)

    def _made(self, kind: type[_Plain], host: str, **kept: Any) -> _Plain:
        made = kind(host, **kept)
        made.connections = self._connections
        return made


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Whoever is between could forge what comes without TLS."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in PORTS or (req.type == "https" and scheme != "https"):
            raise NetworkError(f"redirected from {req.type} to {scheme}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read(url: str, bytes_max: int, connections: _Connections) -> bytes:
    opener = urllib.request.build_opener(_Opener(connections), _Redirections())
    try:
        with opener.open(url, timeout=WAIT_S_MAX) as answer:
            found: bytes = answer.read(bytes_max)
            return found
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NetworkError(_reason(error)) from None  # whose text may hold the address


def _reason(error: OSError | ValueError | http.client.HTTPException) -> str:
    match error:
        case urllib.error.HTTPError():
            return f"its status is {error.code}"
        case urllib.error.URLError(reason=OSError() as reason):
            return _without_address(reason)
        case OSError() | ValueError():
            return _without_address(error)
        case _:
            return type(error).__name__


class WebAddress:
    """An address that takes small documents, one connection each."""

    def __init__(self, url: str) -> None:
        self._url = url
        # Made once and in a thread: to read all authorities of the machine takes tens of ms.
        self._context: ssl.SSLContext | None = None

    async def post_json(self, body: bytes, *, timeout_ms: int) -> int:
        """The status of the answer; the rest of it is not read, and no redirection followed.
        NetworkError, without the address, when there is none in time.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._context is None and urlsplit(self._url).scheme == "https":
                    self._context = await asyncio.to_thread(ssl.create_default_context)
                return await _post(self._url, body, self._context)
        except TimeoutError as late:
            raise NetworkError(f"no answer within {timeout_ms} ms") from late
        except (OSError, ValueError) as error:
            raise NetworkError(_without_address(error)) from error


def _without_address(error: OSError | ValueError) -> str:
    """What an error says, but for host and port, which the texts of most of them hold."""
    name = type(error).__name__
    match error:
        case ssl.SSLCertVerificationError():
            # "Hostname mismatch, certificate is not valid for ..."
            return f"{name}: {error.verify_message.partition(',')[0]}"
        case ssl.SSLError():
            return f"{name}: {error.reason}"
        case socket.gaierror():
            return f"{name}: {error.strerror}"
        case OSError(errno=int(number)) if number > 0:
            return f"{name}: {os.strerror(number)}"
        case _:
            return name


async def _post(url: str, body: bytes, context: ssl.SSLContext | None) -> int:
    parts = urlsplit(url)
    assert parts.hostname is not None
    reader, writer = await asyncio.open_connection(
        parts.hostname,
        parts.port or PORTS[parts.scheme],
        ssl=context,
        limit=LINE_BYTES_MAX,
    )
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: penstock\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode("ascii") + body)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    """The status that is final: `100 Continue` and others before it are read past."""
    is_head = False
    for _ in range(LINES_MAX):
        line = await reader.readline()
        if is_head and line:
            is_head = line not in (b"\r\n", b"\n")
            continue
        found = STATUS_LINE.match(line)
        if found is None:
            raise NetworkError("the answer is not HTTP")
        status = int(found[1])
        if status not in INTERIM:
            return status
        is_head = True
    raise NetworkError(f"the answer has no status within {LINES_MAX} lines")

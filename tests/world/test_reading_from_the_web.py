"""A document is read within its time, and what came by TLS goes on by TLS."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.world.errors import NetworkError
from penstock.world.web import read_address
from rig.tls_files import TlsFiles

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SECRET = "s3cret"
DRIP_S = 0.005


def answering(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    return serve


def redirecting(url: str) -> Serve:
    head = f"HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n"
    return answering(head.encode())


DOCUMENT = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkeys")


def read(serve: Serve, *, timeout_ms: int = 60_000) -> bytes:
    async def scenario() -> bytes:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{port}/{SECRET}"
            return await read_address(url, bytes_max=100, timeout_ms=timeout_ms)

    return asyncio.run(scenario())


def read_redirected(first: ssl.SSLContext | None, second: ssl.SSLContext | None) -> bytes:
    """A document of one server, by way of another that redirects to it."""

    async def scenario() -> bytes:
        async with await asyncio.start_server(DOCUMENT, "127.0.0.1", 0, ssl=second) as last:
            url = address(last, second)
            serve = redirecting(f"{url}?{SECRET}")
            async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=first) as server:
                url = address(server, first)
                return await read_address(url, bytes_max=100, timeout_ms=60_000)

    return asyncio.run(scenario())


def address(server: asyncio.Server, context: ssl.SSLContext | None) -> str:
    scheme = "http" if context is None else "https"
    return f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    files = TlsFiles(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.trusted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.node(hosts=("127.0.0.1",)))
    return context


def test_a_document_is_read() -> None:
    assert read(DOCUMENT) == b"keys"


def test_a_redirection_from_tls_to_plain_text_is_refused(tls: ssl.SSLContext) -> None:
    with pytest.raises(NetworkError, match="redirected from https to http") as refused:
        read_redirected(tls, None)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("first", ["http", "https"])
def test_a_redirection_to_tls_is_followed(tls: ssl.SSLContext, first: str) -> None:
    assert read_redirected(tls if first == "https" else None, tls) == b"keys"


def test_a_redirection_within_plain_text_is_followed() -> None:
    assert read_redirected(None, None) == b"keys"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/keys"])
def test_a_redirection_to_what_is_not_the_web_is_refused(url: str) -> None:
    with pytest.raises(NetworkError, match=r"status is 302|redirected from http to ftp"):
        read(redirecting(url))


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"],
    ids=["head", "document"],
)
def test_an_answer_that_trickles_in_is_given_up(head: bytes) -> None:
    """However little it has to wait for each byte. The thread that reads it ends as well: the loop
    waits for it before it closes.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(b"H")
            await asyncio.sleep(DRIP_S)

    with pytest.raises(NetworkError, match="no answer within 100 ms"):
        read(serve, timeout_ms=100)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@127.0.0.1/keys",
        f"https://user:{SECRET}@127.0.0.1/keys",
        f"http://127.0.0.1:1/keys?token={SECRET}",
        f"http://127.0.0.1:{SECRET}/keys",
        f"http://127.0.0.1/keys of {SECRET}",
        f"http://{SECRET}.invalid/keys",
        f"http://[{SECRET}/keys",
        f"other://{SECRET}/keys",
    ],
)
def test_the_reason_of_a_failure_is_without_the_address(url: str) -> None:
    with pytest.raises(NetworkError) as failed:
        asyncio.run(read_address(url, bytes_max=100, timeout_ms=60_000))
    assert SECRET not in str(failed.value)


def test_the_address_of_a_redirection_is_not_told() -> None:
    with pytest.raises(NetworkError) as failed:
        read(redirecting(f"http://user:{SECRET}@127.0.0.1/keys"))
    assert SECRET not in str(failed.value)


def test_the_status_of_an_answer_without_a_document_is_told() -> None:
    gone = answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(NetworkError, match="its status is 404"):
        read(gone)

"""A POST has a status, or an error that does not tell the address."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from penstock.world.errors import NetworkError
from penstock.world.web import WebAddress
from rig.tls_files import TlsFiles

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def posted(serve: Serve, *, timeout_ms: int = 60_000) -> int:
    async def scenario() -> int:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            address = WebAddress(f"http://127.0.0.1:{port}/secret")
            return await address.post_json(b"{}", timeout_ms=timeout_ms)

    return asyncio.run(scenario())


def answering(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(answer)
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("answer", "status"),
    [(b"HTTP/1.1 204 No Content\r\n\r\n", 204), (b"HTTP/1.0 503 \r\n", 503)],
)
def test_the_status_of_an_answer_is_told(answer: bytes, status: int) -> None:
    assert posted(answering(answer)) == status


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    ],
)
def test_the_status_is_the_one_after_those_that_announce_it(interim: bytes) -> None:
    assert posted(answering(interim + b"HTTP/1.1 204 No Content\r\n\r\n")) == 204


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nServer: x",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000,
        b"HTTP/1.1 100 Continue\r\n" + b"a: b\r\n" * 1_000 + b"\r\nHTTP/1.1 204 x\r\n\r\n",
    ],
)
def test_an_answer_that_is_announced_and_does_not_follow_is_an_error(answer: bytes) -> None:
    with pytest.raises(NetworkError):
        posted(answering(answer))


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"220 mail\r\n", b"HTTP/1.1 9", b"x" * 100_000, b"HTTP/2 200\r\n"]
)
def test_what_is_no_answer_of_http_is_an_error(answer: bytes) -> None:
    with pytest.raises(NetworkError) as refused:
        posted(answering(answer))
    assert "secret" not in str(refused.value)


def test_one_that_does_not_answer_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 ")
        await reader.read()  # until the client hangs up
        writer.close()

    with pytest.raises(NetworkError, match="no answer within 50 ms"):
        posted(serve, timeout_ms=50)


def posted_with_tls(
    files: TlsFiles, *, certified_for: str, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """The statuses of two documents, to a server with a certificate for a host."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files.trusted))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(files.node(hosts=(certified_for,)))

    async def scenario() -> list[int]:
        serve = answering(b"HTTP/1.1 204 No Content\r\n\r\n")
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side) as server:
            port = server.sockets[0].getsockname()[1]
            address = WebAddress(f"https://127.0.0.1:{port}/secret")
            return [await address.post_json(b"{}", timeout_ms=60_000) for _ in range(2)]

    return asyncio.run(scenario())


def test_what_tls_needs_is_made_once_and_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    make = ssl.create_default_context

    def watched() -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return make()

    monkeypatch.setattr(ssl, "create_default_context", watched)
    files = TlsFiles(tmp_path)
    statuses = posted_with_tls(files, certified_for="127.0.0.1", monkeypatch=monkeypatch)
    assert statuses == [204, 204]
    [made_by] = threads
    assert made_by is not threading.current_thread()


def test_a_certificate_for_another_host_is_refused_without_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TlsFiles(tmp_path)
    with pytest.raises(NetworkError, match="mismatch") as refused:
        posted_with_tls(files, certified_for="elsewhere", monkeypatch=monkeypatch)
    assert "127.0.0.1" not in str(refused.value)


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_tells_neither_host_nor_port(
    host: str, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        address = WebAddress(f"http://{host}:{port}/secret")
        with (
            asyncio.Runner(loop_factory=factory) as runner,
            pytest.raises(NetworkError) as refused,
        ):
            runner.run(address.post_json(b"{}", timeout_ms=60_000))
    assert str(refused.value) in ("ConnectionRefusedError: Connection refused", "OSError")

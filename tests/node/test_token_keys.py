"""The keys of an issuer of tokens are read from its address, and again when it has new ones."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from penstock.model.settings.sasl import parse_sasl
from penstock.node.token_keys import TokenKeySource
from penstock.security.sasl.oauthbearer import Bearer, InvalidToken
from penstock.world.real import real_world

WAIT_S = 60
NOW_MS = 1_700_000_000_000
OLD = RSAKey.generate_key(2048, {"kid": "old", "use": "sig"})
NEW = RSAKey.generate_key(2048, {"kid": "new", "use": "sig"})


class Issuer(HTTPServer):
    """`document` is what it answers; None is an error. `broken` stands in the place of it all."""

    document: bytes | None = None
    broken: bytes | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/keys"

    def publish(self, *keys: RSAKey) -> None:
        self.document = document(*keys)


class Answer(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        if self.server.broken is not None:
            self.wfile.write(self.server.broken)
            return
        found = self.server.document
        self.send_response(500 if found is None else 200)
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    server = Issuer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def document(*keys: RSAKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def token(key: RSAKey) -> str:
    claims = {"iss": "i", "aud": "a", "sub": "alice", "exp": NOW_MS // 1000 + 60}
    return jwt.encode({"alg": "RS256", "kid": str(key.as_dict()["kid"])}, claims, key)


def source(url: str) -> TokenKeySource:
    settings = parse_sasl(
        {
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.expected.issuer": "i",
            "sasl.oauthbearer.expected.audience": "a",
        }
    )
    return TokenKeySource(settings, real_world(inline=True), listener="L")


async def until_verified(keys: TokenKeySource, key: RSAKey) -> Bearer:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return keys.verify(token(key), now_ms=NOW_MS)
            except InvalidToken:
                await asyncio.sleep(0.01)


async def with_keys(keys: TokenKeySource, *verified: RSAKey) -> list[Bearer]:
    reading = asyncio.create_task(keys.run())
    try:
        return [await until_verified(keys, key) for key in verified]
    finally:
        reading.cancel()


ALICE = Bearer(user="alice", expires_ms=NOW_MS + 60_000)


def test_keys_are_read_from_an_address(issuer: Issuer) -> None:
    issuer.publish(OLD)
    assert asyncio.run(with_keys(source(issuer.url), OLD)) == [ALICE]


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys of the issuer").write_bytes(document(OLD))
    url = (tmp_path / "keys of the issuer").as_uri()
    assert asyncio.run(with_keys(source(url), OLD)) == [ALICE]


def test_a_new_key_counts_soon_after_the_first_token_that_names_it(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.node.token_keys.INTERVAL_MS_MIN", 10)

    async def scenario() -> None:
        issuer.publish(OLD)
        keys = source(issuer.url)
        reading = asyncio.create_task(keys.run())
        try:
            await until_verified(keys, OLD)
            issuer.publish(OLD, NEW)
            assert await until_verified(keys, NEW) == ALICE
        finally:
            reading.cancel()

    asyncio.run(scenario())


def test_an_issuer_that_fails_is_asked_again_and_its_last_keys_count(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.node.token_keys.INTERVAL_MS_MIN", 10)

    async def scenario() -> None:
        keys = source(issuer.url)
        reading = asyncio.create_task(keys.run())
        try:
            async with asyncio.timeout(WAIT_S):
                while "known=False" not in caplog.text:
                    with pytest.raises(InvalidToken):
                        keys.verify(token(OLD), now_ms=NOW_MS)
                    await asyncio.sleep(0.01)
            issuer.publish(OLD)
            await until_verified(keys, OLD)
            issuer.document = b"no keys"
            async with asyncio.timeout(WAIT_S):
                while "known=True" not in caplog.text:
                    with pytest.raises(InvalidToken):
                        keys.verify(token(NEW), now_ms=NOW_MS)
                    await asyncio.sleep(0.01)
            assert keys.verify(token(OLD), now_ms=NOW_MS) == ALICE
        finally:
            reading.cancel()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"garbage\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000,
        b"",
    ],
    ids=["half a chunk", "half a document", "no HTTP", "line without end", "nothing"],
)
def test_an_issuer_whose_answer_breaks_off_is_asked_again(
    issuer: Issuer, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        issuer.broken = broken
        keys = source(issuer.url)
        reading = asyncio.create_task(keys.run())
        try:
            async with asyncio.timeout(WAIT_S):
                while "known=False" not in caplog.text:
                    assert not reading.done(), reading
                    await asyncio.sleep(0.01)
            issuer.publish(OLD)
            issuer.broken = None
            assert await until_verified(keys, OLD) == ALICE
        finally:
            reading.cancel()

    asyncio.run(scenario())


def test_an_issuer_whose_answer_does_not_end_is_asked_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.node.token_keys.READ_TIMEOUT_MS", 100)

    async def scenario() -> None:
        silent = await asyncio.start_server(never_answering, "127.0.0.1", 0)
        async with silent:
            keys = source(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/keys")
            reading = asyncio.create_task(keys.run())
            try:
                async with asyncio.timeout(WAIT_S):
                    while caplog.text.count("no answer within 100 ms") < 2:
                        assert not reading.done(), reading
                        await asyncio.sleep(0.01)
            finally:
                reading.cancel()

    asyncio.run(scenario())


async def never_answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://issuer.invalid/keys?key=s3cret", True),
        ("http://0.0.0.0:1/keys", True),
        ("https://127.0.0.1:1/keys", False),
        ("http://127.0.0.1:1/keys", False),
        ("http://[::1]:1/keys", False),
        ("http://localhost:1/keys", False),
        ("file:///nowhere/keys", False),
    ],
)
def test_keys_that_come_without_tls_from_elsewhere_are_warned_of_once(
    url: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        reading = asyncio.create_task(source(url).run())
        try:
            async with asyncio.timeout(WAIT_S):
                while caplog.text.count("keys of tokens not read") < 2:
                    assert not reading.done(), reading
                    await asyncio.sleep(0.01)
        finally:
            reading.cancel()

    asyncio.run(scenario())
    assert caplog.text.count("keys of tokens come without TLS") == int(warned)
    assert "s3cret" not in caplog.text

"""TLS streams on real sockets, on both event loops."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

import pytest
import uvloop

from penstock.model import limit
from penstock.model.settings.tls import parse_tls
from penstock.world.disk import RealDisk
from penstock.world.errors import FileNotSent, HandshakeFailed, NetworkError
from penstock.world.ports import Address, FileRange, Stream
from penstock.world.tcp import TcpNetwork
from penstock.world.tls import TlsContexts, TlsListener, TlsNetwork, client_context, enter
from penstock.world.tls_stream import TlsStream, joined
from rig.tls_files import TlsFiles

LATER = 365 * 86_400  # seconds: no certificate of a test lasts that long
ANY_PORT = Address(host="127.0.0.1", port=0)
Run = Callable[[Coroutine[Any, Any, None]], None]
Settings = dict[str, str]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_on(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(coroutine, 120))

    return run_on


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return TlsFiles(tmp_path / "authority")


def server_side(settings: Settings) -> TlsContexts:
    return TlsContexts(parse_tls(settings), RealDisk(), server_side=True, of="test")


def client_side(settings: Settings) -> TlsNetwork:
    contexts = TlsContexts(parse_tls(settings), RealDisk(), server_side=False, of="client")
    return TlsNetwork(TcpNetwork(), contexts)


class Entrance:
    """A listener whose connections shake hands at once; what came of each is in `entered`."""

    def __init__(self, contexts: TlsContexts, listener: TlsListener) -> None:
        self.address = listener.address
        self.streams: list[Stream] = []
        self.entered: asyncio.Queue[bytes | NetworkError | None] = asyncio.Queue()
        self._contexts = contexts
        self._tasks: list[asyncio.Task[None]] = []
        listener.listen(self._accept)

    def _accept(self, stream: Stream) -> None:
        self.streams.append(stream)
        self._tasks.append(asyncio.ensure_future(self._enter(stream)))

    async def _enter(self, stream: Stream) -> None:
        try:
            self.entered.put_nowait(await enter(stream, self._contexts))
        except NetworkError as error:
            stream.close()
            self.entered.put_nowait(error)


@contextlib.asynccontextmanager
async def listening(contexts: TlsContexts) -> AsyncIterator[Entrance]:
    listener = TlsListener(await TcpNetwork().bind(ANY_PORT))
    entrance = Entrance(contexts, listener)
    try:
        yield entrance
    finally:
        listener.close()
        for stream in entrance.streams:
            stream.close()


async def connected(
    files: TlsFiles, scenario: Callable[[Stream, Stream], Awaitable[None]], **settings: str
) -> None:
    """Runs the scenario with the two ends of one connection: client, server."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    async with listening(server_side({**files.node_settings(), **given})) as entrance:
        client = await client_side(files.client_settings()).connect(entrance.address)
        try:
            assert await entrance.entered.get() is None
            await scenario(client, entrance.streams[0])
        finally:
            client.close()


async def receive_exactly(stream: Stream, count: int) -> bytes:
    buffer = bytearray(count)
    view = memoryview(buffer)
    filled = 0
    while filled < count:
        received = await stream.receive_into(view[filled:])
        assert received > 0
        filled += received
    return bytes(buffer)


def older_client(files: TlsFiles) -> ssl.SSLContext:
    settings = {**files.client_settings("alice"), "ssl.enabled.protocols": "TLSv1.2"}
    return client_context(parse_tls(settings), RealDisk())


def shaken(
    context: ssl.SSLContext, address: Address, session: ssl.SSLSession | None
) -> ssl.SSLSocket:
    plain = socket.create_connection((address.host, address.port), 60)
    return context.wrap_socket(plain, server_hostname="localhost", session=session)


def test_a_resumed_session_ends_with_its_certificate(
    run: Run, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        context = older_client(files)
        async with listening(server_side(files.node_settings(clients="required"))) as entrance:

            async def enters(session: ssl.SSLSession | None) -> ssl.SSLSocket:
                return await asyncio.to_thread(shaken, context, entrance.address, session)

            first = await enters(None)
            certificate = await entrance.entered.get()
            resumed = await enters(first.session)
            assert resumed.session_reused
            assert await entrance.entered.get() == certificate
            monkeypatch.setattr("penstock.world.tls_handshake.wall_s", lambda: time.time() + LATER)
            refused = await enters(first.session)
            error = await entrance.entered.get()
            assert isinstance(error, HandshakeFailed)
            assert "certificate of a resumed session has expired" in str(error)
            assert await asyncio.to_thread(refused.recv, 1) == b""
            # Nobody has to forget the session by itself: the next handshake is a whole one.
            anew = await enters(first.session)
            assert not anew.session_reused
            assert await entrance.entered.get() == certificate
            for one in (first, resumed, refused, anew):
                one.close()

    run(scenario())


def test_a_session_is_not_resumed_when_the_trusted_certificates_have_changed(
    run: Run, files: TlsFiles, tmp_path: Path
) -> None:
    async def scenario() -> None:
        context = older_client(files)
        async with listening(server_side(files.node_settings(clients="required"))) as entrance:
            first = await asyncio.to_thread(shaken, context, entrance.address, None)
            assert isinstance(await entrance.entered.get(), bytes)
            files.trusted.write_text(TlsFiles(tmp_path / "another").trusted.read_text())
            with contextlib.suppress(OSError):
                await asyncio.to_thread(shaken, context, entrance.address, first.session)
            assert isinstance(await entrance.entered.get(), HandshakeFailed)
            first.close()

    run(scenario())


def test_bytes_of_any_size_arrive_both_ways(run: Run, files: TlsFiles) -> None:
    async def scenario(client: Stream, server: Stream) -> None:
        for size in (1, 100, 16 * limit.KIB, 16 * limit.KIB + 1, 5 * limit.MIB):
            data = os.urandom(size)
            for one, other in ((client, server), (server, client)):
                received, _ = await asyncio.gather(receive_exactly(other, size), one.send([data]))
                assert received == data

    run(connected(files, scenario))


def test_a_record_larger_than_the_view_is_received_in_parts(run: Run, files: TlsFiles) -> None:
    async def scenario(client: Stream, server: Stream) -> None:
        data = os.urandom(10 * limit.KIB)
        await client.send([data])
        parts = []
        for _ in range(10):
            view = bytearray(limit.KIB)
            assert await server.receive_into(memoryview(view)) == limit.KIB
            parts.append(bytes(view))
        assert b"".join(parts) == data

    run(connected(files, scenario))


def test_what_does_not_fit_now_is_returned_and_can_be_sent_with_more(
    run: Run, files: TlsFiles
) -> None:
    async def scenario(client: Stream, server: Stream) -> None:
        sent = [os.urandom(size) for size in (10, 40_000, 300, 30 * limit.MIB, 20)]
        rest = server.send_now(sent)
        assert 0 < sum(map(len, rest)) < sum(map(len, sent))
        later = os.urandom(100)
        total = sum(map(len, sent)) + len(later)
        received, _ = await asyncio.gather(
            receive_exactly(client, total), server.send([*rest, later])
        )
        assert received == b"".join(sent) + later

    run(connected(files, scenario))


def test_a_range_of_a_file_arrives(run: Run, files: TlsFiles, tmp_path: Path) -> None:
    data = os.urandom(3 * limit.MIB)
    (tmp_path / "segment").write_bytes(data)
    file = RealDisk().open(str(tmp_path / "segment"))

    async def scenario(client: Stream, server: Stream) -> None:
        span = FileRange(file=file, position=1000, byte_count=2 * limit.MIB)
        received, _ = await asyncio.gather(
            receive_exactly(client, span.byte_count), server.send_file(span)
        )
        assert received == data[1000 : 1000 + span.byte_count]

    run(connected(files, scenario))
    file.close()


def test_a_file_that_the_disk_does_not_give_is_named(
    run: Run, files: TlsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "segment").write_bytes(b"x" * 10)
    file = RealDisk().open(str(tmp_path / "segment"))

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", refuse)
    monkeypatch.setattr(os, "sendfile", refuse)

    async def scenario(client: Stream, server: Stream) -> None:
        with pytest.raises(FileNotSent) as raised:
            await server.send_file(FileRange(file=file, position=0, byte_count=10))
        assert raised.value.path == file.path

    run(connected(files, scenario))
    file.close()


def test_a_file_that_is_shorter_than_announced_fails(
    run: Run, files: TlsFiles, tmp_path: Path
) -> None:
    (tmp_path / "short").write_bytes(b"x" * 10)
    file = RealDisk().open(str(tmp_path / "short"))

    async def scenario(client: Stream, server: Stream) -> None:
        with pytest.raises(NetworkError, match="ends at 10, before 20"):
            await server.send_file(FileRange(file=file, position=0, byte_count=20))

    run(connected(files, scenario))
    file.close()


def test_the_end_of_a_peer_is_seen(run: Run, files: TlsFiles) -> None:
    async def scenario(client: Stream, server: Stream) -> None:
        await client.send([b"last"])
        client.close()
        assert await receive_exactly(server, 4) == b"last"
        assert await server.receive_into(memoryview(bytearray(10))) == 0

    run(connected(files, scenario))


def test_who_waits_is_told_when_its_own_end_is_closed(run: Run, files: TlsFiles) -> None:
    async def scenario(client: Stream, server: Stream) -> None:
        waiting = asyncio.ensure_future(server.receive_into(memoryview(bytearray(10))))
        await asyncio.sleep(0)
        server.close()
        server.close()
        with pytest.raises(NetworkError, match="closed"):
            await waiting

    run(connected(files, scenario))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_are_spoken(run: Run, files: TlsFiles, version: str) -> None:
    async def scenario(client: Stream, server: Stream) -> None:
        assert isinstance(server, TlsStream)
        assert server.version == version

    run(connected(files, scenario, ssl_enabled_protocols=version))


def test_a_chosen_cipher_suite_is_used(run: Run, files: TlsFiles) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"

    async def scenario(client: Stream, server: Stream) -> None:
        assert isinstance(server, TlsStream)
        assert server.version == "TLSv1.2"  # no suite of TLS 1.3 was listed

    run(connected(files, scenario, ssl_cipher_suites=suite))


def outcome(
    run: Run, server: Settings, talk: Callable[[Address], Awaitable[None]]
) -> bytes | NetworkError | None:
    """What the server makes of one client."""
    seen: list[bytes | NetworkError | None] = []

    async def scenario() -> None:
        async with listening(server_side(server)) as entrance:
            await talk(entrance.address)
            seen.append(await entrance.entered.get())

    run(scenario())
    [one] = seen
    return one


def connecting(settings: Settings, *, fails: str | None = None) -> Callable[..., Awaitable[None]]:
    """A client that connects and asks something. In TLS 1.3 it learns after its part of the
    handshake that it is refused.
    """

    async def talk(address: Address) -> None:
        view = memoryview(bytearray(10))
        if fails is None:
            (await client_side(settings).connect(address)).close()
            return
        with pytest.raises(NetworkError, match=fails):
            stream = await client_side(settings).connect(address)
            try:
                await stream.send([b"hello"])
                if await stream.receive_into(view) == 0:
                    raise NetworkError("closed without an alert")
            finally:
                stream.close()

    return talk


def test_a_client_without_certificate_enters_where_none_is_asked_for(
    run: Run, files: TlsFiles
) -> None:
    assert outcome(run, files.node_settings(), connecting(files.client_settings())) is None


@pytest.mark.parametrize("clients", ["requested", "required"])
def test_the_certificate_of_a_client_is_seen(run: Run, files: TlsFiles, clients: str) -> None:
    talk = connecting(files.client_settings("alice"))
    entered = outcome(run, files.node_settings(clients=clients), talk)
    assert isinstance(entered, bytes)
    pem = (files.folder / "alice.crt").read_text()
    assert entered == ssl.PEM_cert_to_DER_cert(pem)


def test_a_requested_certificate_may_be_missing(run: Run, files: TlsFiles) -> None:
    talk = connecting(files.client_settings())
    assert outcome(run, files.node_settings(clients="requested"), talk) is None


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_required_certificate_that_is_missing_is_refused_and_the_client_is_told(
    run: Run, files: TlsFiles, version: str
) -> None:
    server = {**files.node_settings(clients="required"), "ssl.enabled.protocols": version}
    told = "handshake failure" if version == "TLSv1.2" else "certificate required"
    refused = outcome(run, server, connecting(files.client_settings(), fails=told))
    assert isinstance(refused, HandshakeFailed)
    assert "did not return a certificate" in refused.reason


def test_a_certificate_of_another_authority_is_refused_and_the_client_is_told(
    run: Run, files: TlsFiles, tmp_path: Path
) -> None:
    foreign = TlsFiles(tmp_path / "foreign").client_settings("mallory")
    talk = connecting({**foreign, "ssl.truststore.location": str(files.trusted)}, fails="alert")
    refused = outcome(run, files.node_settings(clients="required"), talk)
    assert isinstance(refused, HandshakeFailed)
    assert "certificate verify failed" in refused.reason


def test_an_expired_certificate_is_refused_and_the_client_is_told(
    run: Run, files: TlsFiles, tmp_path: Path
) -> None:
    old = TlsFiles.expired(tmp_path / "old")
    server = {**files.node_settings(clients="required")}
    # The authority itself is trusted: what has expired is trust that was given once.
    server["ssl.truststore.location"] = str(old.trusted)
    client = {**old.client_settings("late"), "ssl.truststore.location": str(files.trusted)}
    refused = outcome(run, server, connecting(client, fails="alert"))
    assert isinstance(refused, HandshakeFailed)
    assert "expired" in refused.reason


def test_a_server_of_another_authority_is_refused_by_the_client(
    run: Run, files: TlsFiles, tmp_path: Path
) -> None:
    foreign = TlsFiles(tmp_path / "foreign")
    talk = connecting(files.client_settings(), fails="certificate verify failed")
    refused = outcome(run, foreign.node_settings(), talk)
    assert isinstance(refused, HandshakeFailed)
    assert "alert" in refused.reason


def test_a_server_under_another_name_is_refused_unless_names_are_not_looked_at(
    run: Run, files: TlsFiles
) -> None:
    files.node("elsewhere", hosts=("elsewhere.example",))
    server = {
        **files.node_settings(),
        "ssl.keystore.location": str(files.folder / "elsewhere.pem"),
    }
    talk = connecting(files.client_settings(), fails="127.0.0.1")
    assert isinstance(outcome(run, server, talk), HandshakeFailed)
    blind = {**files.client_settings(), "ssl.endpoint.identification.algorithm": ""}
    assert outcome(run, server, connecting(blind)) is None


def saying(data: bytes) -> Callable[[Address], Awaitable[None]]:
    """A client without TLS: says something and waits for the end."""

    async def talk(address: Address) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(data)
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
        writer.close()

    return talk


@pytest.mark.parametrize("data", [b"\0\0\0\x20\0\x12\0\3", b"GET / HTTP/1.1\r\n\r\n"])
def test_plain_text_is_refused_and_known_as_such(run: Run, files: TlsFiles, data: bytes) -> None:
    refused = outcome(run, files.node_settings(), saying(data))
    assert isinstance(refused, HandshakeFailed)
    assert refused.reason == "plain text on a listener of TLS"


def test_a_client_that_goes_before_it_has_said_anything_is_no_failed_handshake(
    run: Run, files: TlsFiles
) -> None:
    async def talk(address: Address) -> None:
        (await TcpNetwork().connect(address)).close()

    gone = outcome(run, files.node_settings(), talk)
    assert isinstance(gone, NetworkError)
    assert not isinstance(gone, HandshakeFailed)


def test_tls_1_1_is_refused(run: Run, files: TlsFiles) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1

    async def talk(address: Address) -> None:
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            await asyncio.open_connection(address.host, address.port, ssl=context)

    refused = outcome(run, files.node_settings(), talk)
    assert isinstance(refused, HandshakeFailed)
    assert "unsupported protocol" in refused.reason


def test_a_client_that_never_finishes_its_handshake_is_given_up(
    run: Run, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit, "TLS_HANDSHAKE_MS_MAX", 50)
    refused = outcome(run, files.node_settings(), saying(b"\x16\x03\x01\x02\x00\x01"))
    assert isinstance(refused, HandshakeFailed)
    assert refused.reason == "no TLS handshake within 50 ms"


def test_new_files_are_used_from_the_next_handshake_on(run: Run, files: TlsFiles) -> None:
    settings = files.node_settings()

    async def scenario() -> None:
        async with listening(server_side(settings)) as entrance:
            network = client_side(files.client_settings())
            first = await network.connect(entrance.address)
            files.node()
            second = await network.connect(entrance.address)
            assert isinstance(first, TlsStream)
            assert isinstance(second, TlsStream)
            assert first.certificate != second.certificate
            for stream in (first, second):
                await entrance.entered.get()
                await stream.send([b"still open"])
                stream.close()

    run(scenario())


def test_bad_new_files_are_told_of_and_the_former_ones_kept(
    run: Run, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    settings = files.node_settings()

    def spoil() -> None:
        Path(settings["ssl.keystore.location"]).write_text("-----BEGIN NOTHING-----")

    async def scenario() -> None:
        async with listening(server_side(settings)) as entrance:
            spoil()
            for _ in range(2):
                await connecting(files.client_settings())(entrance.address)
                assert await entrance.entered.get() is None
            files.node()
            await connecting(files.client_settings())(entrance.address)

    run(scenario())
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if line.startswith("certificates=kept")] == [
        "certificates=kept of=test reason=Invalid value"
        f" {settings['ssl.keystore.location']} for configuration ssl.keystore.location:"
        " One private key in PEM is needed, and it has 0"
    ]


@pytest.mark.parametrize("seed", range(40))
def test_damaged_records_end_the_connection_and_nothing_else(files: TlsFiles, seed: int) -> None:
    """Real handshakes and records with some bytes changed, cut off or repeated on their way."""
    outcomes: list[object] = []

    async def scenario() -> None:
        async with listening(server_side(files.node_settings())) as entrance:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            secured = context.wrap_bio(incoming, outgoing)
            reader, writer = await asyncio.open_connection(
                entrance.address.host, entrance.address.port
            )
            damage = Damage(seed)
            for _ in range(6):
                try:
                    secured.do_handshake()
                    secured.write(b"x" * 20_000)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError:
                    break
                writer.write(damage(outgoing.read()))
                try:
                    async with asyncio.timeout(0.1):
                        received = await reader.read(65_536)
                except (TimeoutError, OSError):
                    break
                if not received:
                    break
                incoming.write(received)
            writer.close()
            entered = await entrance.entered.get()
            outcomes.append(entered)
            if entered is None:
                with contextlib.suppress(NetworkError):
                    view = memoryview(bytearray(65_536))
                    while await entrance.streams[0].receive_into(view):
                        pass
            # Others are served as before.
            await connecting(files.client_settings())(entrance.address)
            assert await entrance.entered.get() is None

    with asyncio.Runner() as runner:
        runner.run(asyncio.wait_for(scenario(), 60))
    assert outcomes[0] is None or isinstance(outcomes[0], NetworkError)


class Damage:
    """Changes what passes, by a seed."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 2_654_435_761 + 1

    def __call__(self, data: bytes) -> bytes:
        changed = bytearray(data)
        kind = self._below(4)
        if not changed or kind == 0:
            return bytes(changed)
        for _ in range(1 + self._below(4)):
            at = self._below(len(changed))
            if kind == 1:
                changed[at] ^= 1 + self._below(255)
            elif kind == 2:
                changed[at:at] = changed[: self._below(len(changed))]
            else:
                del changed[at : at + 1 + self._below(40)]
                if not changed:
                    break
        return bytes(changed)

    def _below(self, bound: int) -> int:
        self._state = (self._state * 6_364_136_223_846_793_005 + 1) % 2**64
        return (self._state >> 33) % bound


def test_small_buffers_are_joined_and_large_ones_are_not_copied() -> None:
    large = bytes(20 * limit.KIB)
    pieces = joined([b"a", b"", b"bc", large, b"d", memoryview(b"e")])
    assert pieces == [b"abc", large, b"de"]
    assert pieces[1] is large
    small = bytes(1000)
    assert all(len(piece) <= 18_000 for piece in joined([small] * 100))
    assert b"".join(joined([small] * 100)) == small * 100

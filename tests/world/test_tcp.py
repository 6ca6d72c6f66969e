"""TCP streams, on both event loops."""

import asyncio
import contextlib
import os
import resource
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from penstock.model import limit
from penstock.world.disk import RealDisk
from penstock.world.errors import ConnectionRefused, NetworkError
from penstock.world.ports import DEFAULT_OPTIONS, Address, FileRange, SocketOptions, Stream
from penstock.world.tcp import TcpNetwork, allows_large_send_buffers
from penstock.world.tcp_stream import TcpStream, rest_of

ANY_PORT = Address(host="127.0.0.1", port=0)
Scenario = Callable[[TcpStream, TcpStream], Awaitable[None]]
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_on(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(coroutine, 120))

    return run_on


async def connected(scenario: Scenario, options: SocketOptions = DEFAULT_OPTIONS) -> None:
    """Runs the scenario with the two ends of one connection: client, server."""
    accepted: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
    network = TcpNetwork()
    listener = await network.bind(ANY_PORT, options)
    listener.listen(accepted.set_result)
    client = await network.connect(listener.address)
    server = await accepted
    assert isinstance(server, TcpStream)
    try:
        await scenario(client, server)
    finally:
        for end in (client, server, listener):
            end.close()


async def receive_exactly(stream: Stream, count: int) -> bytes:
    buffer = bytearray(count)
    view = memoryview(buffer)
    filled = 0
    while filled < count:
        received = await stream.receive_into(view[filled:])
        assert received > 0, "closed early"
        filled += received
    return bytes(buffer)


def test_bytes_arrive_in_order_however_they_were_cut(run: Run) -> None:
    async def scenario(client: TcpStream, server: TcpStream) -> None:
        await client.send([b"ab", b"", bytearray(b"cd"), memoryview(b"ef")])
        await client.send([b"gh"])
        assert await receive_exactly(server, 3) == b"abc"
        assert await receive_exactly(server, 5) == b"defgh"

    run(connected(scenario))


def test_more_than_the_socket_takes_is_sent_piece_by_piece(run: Run) -> None:
    parts = [bytes([number % 251]) * 3001 for number in range(5000)]

    async def scenario(client: TcpStream, server: TcpStream) -> None:
        sending = asyncio.create_task(client.send(parts))
        whole = b"".join(parts)
        assert await receive_exactly(server, len(whole)) == whole
        await sending

    run(connected(scenario))


def test_file_range_is_sent_whole(run: Run, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000  # some 10 MB: many times what a socket takes
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.append([data])

    async def scenario(client: TcpStream, server: TcpStream) -> None:
        span = FileRange(file=file, position=100, byte_count=len(data) - 200)
        sending = asyncio.create_task(server.send_file(span))
        assert await receive_exactly(client, len(data) - 200) == data[100:-100]
        await sending

    run(connected(scenario))
    file.close()


@pytest.mark.parametrize(
    ("size_bytes", "asked_bytes", "widened"),
    [(200_000, None, True), (20_000, None, False), (200_000, 65_536, False)],
)
def test_who_is_sent_large_ranges_gets_a_larger_send_buffer_unless_a_size_was_asked_for(
    run: Run, tmp_path: Path, size_bytes: int, asked_bytes: int | None, widened: bool
) -> None:
    (tmp_path / "log").write_bytes(bytes(size_bytes))
    file = RealDisk().open(str(tmp_path / "log"), writable=False)

    async def scenario(client: TcpStream, server: TcpStream) -> None:
        span = FileRange(file=file, position=0, byte_count=size_bytes)
        sending = asyncio.create_task(server.send_file(span))
        await receive_exactly(client, size_bytes)
        await sending
        if asked_bytes is not None:
            assert send_buffer_bytes(server) <= 2 * asked_bytes  # Linux doubles what was asked for
        elif allows_large_send_buffers():
            is_wide = send_buffer_bytes(server) >= 2 * limit.FILE_SEND_BUFFER_BYTES
            assert is_wide == widened

    run(connected(scenario, SocketOptions(send_buffer_bytes=asked_bytes)))
    file.close()


def send_buffer_bytes(stream: TcpStream) -> int:
    return stream._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_file_that_turns_out_shorter_is_network_trouble(run: Run, tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.append([b"abc"])

    async def scenario(client: TcpStream, server: TcpStream) -> None:
        with pytest.raises(NetworkError, match="ends at 3"):
            await server.send_file(FileRange(file=file, position=0, byte_count=10))

    run(connected(scenario))
    file.close()


def test_peer_that_closes_is_seen_as_zero_bytes(run: Run) -> None:
    async def scenario(client: TcpStream, server: TcpStream) -> None:
        await client.send([b"last"])
        client.close()
        assert await receive_exactly(server, 4) == b"last"
        assert await server.receive_into(memoryview(bytearray(10))) == 0

    run(connected(scenario))


@pytest.mark.parametrize("sent", [b"", b"abc"], ids=["nothing sent", "some bytes sent"])
@pytest.mark.parametrize("waiting", [False, True], ids=["before", "while it is read"])
def test_peer_that_resets_is_noticed(run: Run, sent: bytes, waiting: bool) -> None:
    async def reads_to_the_end(stream: Stream) -> None:
        with pytest.raises(NetworkError, match="reset"):
            while await stream.receive_into(memoryview(bytearray(10))):
                pass

    async def scenario(client: TcpStream, server: TcpStream) -> None:
        reading = asyncio.create_task(reads_to_the_end(server))
        if waiting:
            await asyncio.sleep(0)
        if sent:
            await client.send([sent])
        reset(client)
        await asyncio.wait_for(reading, 60)

    run(connected(scenario))


def test_peer_that_resets_is_noticed_by_who_sends(run: Run) -> None:
    async def scenario(client: TcpStream, server: TcpStream) -> None:
        sending = asyncio.create_task(server.send([bytes(64 * 1024 * 1024)]))
        await asyncio.sleep(0)
        await client.send([b"abc"])
        reset(client)
        with pytest.raises(NetworkError):
            await asyncio.wait_for(sending, 60)

    run(connected(scenario))


def reset(stream: TcpStream) -> None:
    """Closes at once and drops what is under way, as a process that crashes does."""
    at_once = struct.pack("ii", 1, 0)
    stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    stream.close()


def test_closing_wakes_who_waits(run: Run) -> None:
    async def scenario(client: TcpStream, server: TcpStream) -> None:
        receiving = asyncio.create_task(server.receive_into(memoryview(bytearray(10))))
        sending = asyncio.create_task(server.send([bytes(64 * 1024 * 1024)]))
        await asyncio.sleep(0)
        server.close()
        server.close()
        for waiting in (receiving, sending):
            with pytest.raises(NetworkError):
                await waiting
        with pytest.raises(NetworkError):
            await server.receive_into(memoryview(bytearray(10)))

    run(connected(scenario))


def test_cancelled_receive_loses_no_bytes(run: Run) -> None:
    async def scenario(client: TcpStream, server: TcpStream) -> None:
        receiving = asyncio.create_task(server.receive_into(memoryview(bytearray(10))))
        await asyncio.sleep(0)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await client.send([b"kept"])
        assert await receive_exactly(server, 4) == b"kept"

    run(connected(scenario))


def test_stream_that_is_never_dry_gives_others_their_turn(run: Run) -> None:
    async def scenario(client: TcpStream, server: TcpStream) -> None:
        await client.send([bytes(100_000)])
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        view = memoryview(bytearray(100))
        for _ in range(500):
            assert await server.receive_into(view) == 100
        beside.cancel()
        assert turns > 10

    run(connected(scenario))


def test_a_connection_to_a_port_without_listener_is_refused(run: Run) -> None:
    async def scenario() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(ConnectionRefused, match="cannot connect"):
                await TcpNetwork().connect(Address(host="127.0.0.1", port=port))

    run(scenario())


def test_a_connection_that_cannot_be_made_is_not_always_refused(run: Run) -> None:
    async def scenario() -> None:
        with pytest.raises(NetworkError) as told:
            # The address of all machines: the system says no without asking any of them.
            await TcpNetwork().connect(Address(host="255.255.255.255", port=1))
        assert not isinstance(told.value, ConnectionRefused)

    run(scenario())


def test_port_in_use_is_told(run: Run) -> None:
    async def scenario() -> None:
        first = await TcpNetwork().bind(ANY_PORT)
        first.listen(lambda stream: stream.close())
        with pytest.raises(NetworkError, match="cannot listen"):
            await TcpNetwork().bind(first.address)
        first.close()
        first.close()

    run(scenario())


def test_bound_address_refuses_connections_until_it_listens(run: Run) -> None:
    async def scenario() -> None:
        listener = await TcpNetwork().bind(ANY_PORT)
        with pytest.raises(NetworkError, match="Connection refused"):
            await TcpNetwork().connect(listener.address)
        listener.listen(lambda stream: stream.close())
        (await TcpNetwork().connect(listener.address)).close()
        listener.close()

    run(scenario())


def test_of_two_that_bound_one_address_one_listens_and_the_other_is_told(run: Run) -> None:
    async def scenario() -> None:
        first = await TcpNetwork().bind(ANY_PORT)
        second = await TcpNetwork().bind(first.address)
        first.listen(lambda stream: stream.close())
        with pytest.raises(NetworkError, match="cannot listen"):
            second.listen(lambda stream: stream.close())
        second.close()
        first.close()

    run(scenario())


def test_out_of_descriptors_a_connection_waits_and_is_not_lost(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        accepted: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
        listener = await TcpNetwork().bind(ANY_PORT)
        listener.listen(accepted.set_result)
        client = socket.socket()
        client.setblocking(False)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken: list[int] = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, before[1]))
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(client.fileno()))
            client.connect_ex((listener.address.host, listener.address.port))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not accepted.done()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in taken:
                os.close(descriptor)
        (await accepted).close()
        client.close()
        listener.close()

    with caplog.at_level("INFO", "penstock.world.tcp"):
        run(scenario())
    told = [message.split(" listener=")[0] for message in caplog.messages]
    assert told == ["accepting=failed", "accepting=again"]  # once each, however often it tried


def test_connections_leave_descriptors_to_files(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        accepted: list[Stream] = []
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        try:
            listener = await TcpNetwork().bind(ANY_PORT)
            listener.listen(accepted.append)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        clients = [await TcpNetwork().connect(listener.address) for _ in range(150)]
        assert await clients[-1].receive_into(memoryview(bytearray(1))) == 0, "not closed"
        assert 10 < len(accepted) < 100
        for end in (*accepted, *clients, listener):
            end.close()

    run(scenario())
    assert [message.split(" listener=")[0] for message in caplog.messages] == ["accepting=failed"]


def test_localhost_is_found_by_name(run: Run) -> None:
    async def scenario() -> None:
        listener = await TcpNetwork().bind(ANY_PORT)
        listener.listen(lambda stream: stream.close())
        client = await TcpNetwork().connect(Address(host="localhost", port=listener.address.port))
        assert await client.receive_into(memoryview(bytearray(1))) == 0
        client.close()
        listener.close()

    run(scenario())


def test_rest_of_buffers_starts_where_sending_stopped() -> None:
    assert [bytes(part) for part in rest_of([b"abc", b"def", b"ghi"], 4)] == [b"ef", b"ghi"]
    assert [bytes(part) for part in rest_of([b"abc", b"def"], 3)] == [b"def"]
    assert rest_of([b"abc"], 3) == []


@pytest.mark.parametrize("host", ["..", "a..b", "x" * 300, "é" * 200, "a\0b", "x." * 16_000])
def test_what_is_no_host_name_cannot_be_connected_to(run: Run, host: str) -> None:
    """Other nodes say where they listen, and may say anything."""

    async def check() -> None:
        with pytest.raises(NetworkError, match="cannot resolve") as refused:
            await TcpNetwork().connect(Address(host=host, port=9092))
        assert len(str(refused.value)) < 200
        assert str(refused.value).isprintable()

    run(check())

"""Bad input costs its sender the connection, and nobody else anything."""

import os
import random
import struct

import psutil
import pytest

from penstock.model.error import ErrorCode
from penstock.model.settings.broker import BrokerSettings
from penstock.wire.api import ApiKey
from penstock.wire.header import decode_correlation_id, decode_response
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.metadata import MetadataRequest
from rig.raw_serving import RawClient, Serving, request, run, serving, until

REQUEST_BYTES_MAX = BrokerSettings().socket_request_max_bytes
HEADER = struct.Struct(">hhih")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 1) -> bytes:
    return HEADER.pack(api_key, version, correlation_id, -1)


async def still_serves(served: Serving) -> None:
    client = await served.connect()
    await client.ask(MetadataRequest(), 99)
    assert (await client.reply())[0] == 99


BAD_BYTES = {
    "a length of 2 GiB": struct.pack(">i", 2**31 - 1),
    "one byte more than is accepted": struct.pack(">i", REQUEST_BYTES_MAX + 1),
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -(2**31)),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("160301020001000001fc0303") + bytes(500),
    "an empty frame": framed(b""),
    "a header cut short": framed(b"\x00\x03\x00"),
    "a client id longer than the frame": framed(HEADER.pack(3, 9, 1, 2000)),
    "an unknown API key": framed(header(4711, 0)),
    "a negative API key": framed(header(-1, 0)),
    "an API key that ended with ZooKeeper": framed(header(ApiKey.LEADER_AND_ISR, 0)),
    "an unknown version": framed(header(ApiKey.METADATA, 99)),
    "a negative version": framed(header(ApiKey.METADATA, -1)),
    "a body cut short": framed(header(ApiKey.METADATA, 9) + b"\x00"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_BYTES.values(), ids=BAD_BYTES.keys())
def test_bad_bytes_close_their_connection_and_no_other(bad: bytes) -> None:
    async def scenario() -> None:
        async with serving() as served:
            client = await served.connect()
            await client.send(bad)
            assert await client.is_closed()
            await still_serves(served)

    run(scenario())


def test_what_was_asked_before_the_bad_bytes_is_answered() -> None:
    async def scenario() -> None:
        async with serving() as served:
            client = await served.connect()
            await client.send(*request(MetadataRequest(), 5), framed(header(4711, 0)))
            assert (await client.reply())[0] == 5
            assert await client.is_closed()

    run(scenario())


def test_bytes_after_the_body_are_passed_over() -> None:
    async def scenario() -> None:
        async with serving() as served:
            client = await served.connect()
            whole = b"".join(map(bytes, request(MetadataRequest(), 6)))
            await client.send(framed(whole[4:] + b"\x01\x00\x00"))
            assert (await client.reply())[0] == 6

    run(scenario())


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_api_versions_from_the_future_is_told_what_there_is(version: int) -> None:
    async def scenario() -> None:
        async with serving() as served:
            client = await served.connect()
            # A version nobody knows: its body may hold anything at all.
            await client.send(framed(header(ApiKey.API_VERSIONS, version, 77) + b"\x00\x03abc"))
            frame = await client.frame()
            assert frame is not None
            assert decode_correlation_id(frame) == 77
            reply = decode_response(ApiVersionsResponse, 0, frame)
            assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
            (served_range,) = reply.api_keys
            assert served_range.api_key == ApiKey.API_VERSIONS
            assert (served_range.min_version, served_range.max_version) == (0, 4)
            # The connection lives on: the client asks again in a version that was named.
            await ask_api_versions(client, version=served_range.max_version)

    run(scenario())


async def ask_api_versions(client: RawClient, *, version: int, name: str = "test") -> ErrorCode:
    message = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    await client.ask(message, 78, version=version)
    frame = await client.frame()
    assert frame is not None
    return ErrorCode(decode_response(ApiVersionsResponse, version, frame).error_code)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_tells_the_table_of_handlers(version: int) -> None:
    async def scenario() -> None:
        async with serving() as served:
            client = await served.connect()
            message = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
            await client.ask(message, 1, version=version)
            frame = await client.frame()
            assert frame is not None
            reply = decode_response(ApiVersionsResponse, version, frame)
            assert reply.error_code == ErrorCode.NONE
            ranges = {key.api_key: (key.min_version, key.max_version) for key in reply.api_keys}
            assert ranges == {ApiKey.METADATA: (0, 12), ApiKey.API_VERSIONS: (0, 4)}

    run(scenario())


@pytest.mark.parametrize("name", ["", "-", "a b", "ends-in-", "é"])
def test_api_versions_refuses_a_strange_client_software_name(name: str) -> None:
    async def scenario() -> None:
        async with serving() as served:
            client = await served.connect()
            code = await ask_api_versions(client, version=3, name=name)
            assert code == ErrorCode.INVALID_REQUEST
            assert await ask_api_versions(client, version=2) == ErrorCode.NONE

    run(scenario())


def test_random_bytes_never_end_the_server() -> None:
    dice = random.Random(20)

    async def scenario() -> None:
        async with serving() as served:
            for _ in range(200):
                client = await served.connect()
                garbage = dice.randbytes(dice.randrange(1, 300))
                await client.send(framed(garbage) if dice.random() < 0.5 else garbage)
                client.stream.close()
            await still_serves(served)

    run(scenario())


def test_frame_cut_off_by_the_peer_is_forgotten() -> None:
    async def scenario() -> None:
        async with serving() as served:
            whole = b"".join(map(bytes, request(MetadataRequest(), 1)))
            for cut in range(len(whole)):
                client = await served.connect()
                await client.send(whole[:cut])
                client.stream.close()
            await still_serves(served)
            await until(lambda: len(served.server.connections) == 1)

    run(scenario())


def test_claiming_much_and_sending_little_holds_little() -> None:
    async def scenario() -> None:
        async with serving() as served:
            before = resident_bytes()
            for _ in range(50):
                client = await served.connect()
                await client.send(struct.pack(">i", 100 * 1024 * 1024) + bytes(1000))
            await still_serves(served)
            assert resident_bytes() - before < 50 * 1024 * 1024  # of 5 GB announced

    run(scenario())


def test_thousands_of_connections_opened_and_dropped_leave_nothing_behind() -> None:
    async def scenario() -> None:
        async with serving() as served:
            await open_and_drop(served, count=300)
            before = resident_bytes(), open_descriptors()
            await open_and_drop(served, count=2000)
            assert resident_bytes() - before[0] < 16 * 1024 * 1024
            assert open_descriptors() - before[1] < 10
            await still_serves(served)

    run(scenario())


async def open_and_drop(served: Serving, *, count: int) -> None:
    for _ in range(count // 50):
        clients = [await served.connect() for _ in range(50)]
        for client in clients[::2]:
            await client.send(b"\x00\x00\x01\x00partial")
        for client in clients:
            client.stream.close()
        served.clients.clear()
        await until(lambda: not served.server.connections)


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))

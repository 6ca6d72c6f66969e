"""Files that the kernel encrypts on their way (`penstock.ssl.kernel.enable`).

Whether it can is for kernel, Python and OpenSSL to say. Where they do, the first test here sends a
file through all three, and elsewhere it shows that the file arrives all the same. The other tests
need nothing of that: a socket stands in that answers as Linux does, and encrypts nothing.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.model import limit
from penstock.model.settings.tls import parse_tls
from penstock.world.disk import RealDisk
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, File, FileRange, Stream
from penstock.world.tcp import TcpNetwork
from penstock.world.tcp_stream import TcpStream
from penstock.world.tls import TlsContexts, TlsListener, TlsNetwork, enter
from penstock.world.tls_stream import SOL_TLS, TLS_TX, TlsStream, kernel_encrypts
from rig.tls_files import TlsFiles

ANY_PORT = Address(host="127.0.0.1", port=0)
SECONDS_MAX = 120
# In linux/tls.h: version and cipher, and the same with the keys of a cipher.
INFO_BYTES = 4
KEYED_BYTES = {"AES-128-GCM": 40, "AES-256-GCM": 56, "CHACHA20-POLY1305": 56}


class EncryptedByKernel(socket.socket):
    """Answers TLS_TX as Linux does: the short form, or exactly as many bytes as its cipher has."""

    keyed_bytes = KEYED_BYTES["AES-256-GCM"]

    def getsockopt(self, level: int, optname: int, buflen: int = 0) -> Any:
        if (level, optname) != (SOL_TLS, TLS_TX):
            return super().getsockopt(level, optname, buflen)
        if buflen not in (INFO_BYTES, self.keyed_bytes):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return bytes(buflen)


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    """What the file holds that `opened` opens."""
    data = os.urandom(3 * limit.MIB)
    (tmp_path / "segment").write_bytes(data)
    return data


@pytest.fixture
def opened(tmp_path: Path, data: bytes) -> File:
    return RealDisk().open(str(tmp_path / "segment"))


async def receive_exactly(stream: Stream, count: int) -> bytes:
    buffer = bytearray(count)
    filled = 0
    while filled < count:
        received = await stream.receive_into(memoryview(buffer)[filled:])
        assert received > 0
        filled += received
    return bytes(buffer)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_file_arrives_whoever_encrypts_it(
    tmp_path: Path, data: bytes, opened: File, version: str
) -> None:
    files = TlsFiles(tmp_path / "authority")
    settings = {"penstock.ssl.kernel.enable": "true", "ssl.enabled.protocols": version}
    contexts = TlsContexts(
        parse_tls({**files.node_settings(), **settings}), RealDisk(), server_side=True, of="test"
    )
    trusting = TlsContexts(
        parse_tls(files.client_settings()), RealDisk(), server_side=False, of="client"
    )

    async def scenario() -> None:
        listener = TlsListener(await TcpNetwork().bind(ANY_PORT))
        accepted: asyncio.Queue[Stream] = asyncio.Queue()
        listener.listen(accepted.put_nowait)

        async def serve() -> None:
            server = await accepted.get()
            await enter(server, contexts)
            # Records of OpenSSL before and after the file: both count them alike.
            await server.send([b"before"])
            await server.send_file(FileRange(file=opened, position=0, byte_count=len(data)))
            await server.send([b"after"])
            server.close()

        serving = asyncio.ensure_future(serve())
        client = await TlsNetwork(TcpNetwork(), trusting).connect(listener.address)
        received = await receive_exactly(client, len(b"before") + len(data) + len(b"after"))
        assert received == b"before" + data + b"after"
        await serving
        client.close()
        listener.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS_MAX))


@pytest.mark.parametrize("cipher", KEYED_BYTES)
def test_it_is_known_whether_the_kernel_encrypts_whatever_the_cipher(cipher: str) -> None:
    with EncryptedByKernel() as by_kernel, socket.socket() as plain:
        by_kernel.keyed_bytes = KEYED_BYTES[cipher]
        assert kernel_encrypts(by_kernel)
        assert not kernel_encrypts(plain)


def run_with_kernel(scenario: Callable[[TlsStream, Stream], Coroutine[Any, Any, None]]) -> None:
    """The sender and the receiver of a connection whose bytes the kernel would encrypt."""

    async def work() -> None:
        listener = await TcpNetwork().bind(ANY_PORT)
        accepted: asyncio.Queue[Stream] = asyncio.Queue()
        listener.listen(accepted.put_nowait)
        receiver = await TcpNetwork().connect(listener.address)
        tcp = await accepted.get()
        assert isinstance(tcp, TcpStream)
        sender = TlsStream(tcp)
        with EncryptedByKernel(fileno=os.dup(tcp._fd)) as by_kernel:
            sender.secure(by_kernel)  # type: ignore[arg-type]  # nothing but its socket is used
            assert sender.sends_by_kernel
            await scenario(sender, receiver)
        tcp.close()
        receiver.close()
        listener.close()

    asyncio.run(asyncio.wait_for(work(), SECONDS_MAX))


def test_the_kernel_is_given_the_range_and_nothing_else(data: bytes, opened: File) -> None:
    async def scenario(sender: TlsStream, receiver: Stream) -> None:
        span = FileRange(file=opened, position=1000, byte_count=2 * limit.MIB)
        received, _ = await asyncio.gather(
            receive_exactly(receiver, span.byte_count), sender.send_file(span)
        )
        assert received == data[1000 : 1000 + span.byte_count]

    run_with_kernel(scenario)


def test_a_file_that_is_shorter_than_announced_fails(data: bytes, opened: File) -> None:
    async def scenario(sender: TlsStream, _: Stream) -> None:
        span = FileRange(file=opened, position=len(data) - 10, byte_count=20)
        with pytest.raises(NetworkError, match=f"ends at {len(data)}, before"):
            await sender.send_file(span)

    run_with_kernel(scenario)

"""A reply whose records the disk does not give ends its connection, and is told in the log."""

import errno
import logging
import os
import struct
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.broker.network.connection import COPIED_BYTES_MAX
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.services import Services
from penstock.wire.messages.metadata import MetadataRequest
from penstock.world.disk import RealDisk
from penstock.world.ports import FileRange
from rig.raw_serving import Answer, run, serving, until

SMALL_BYTES = 1000
LARGE_BYTES = 2 * COPIED_BYTES_MAX


def lines_of_reply(
    path: Path, caplog: pytest.LogCaptureFixture, *, byte_count: int, is_closed: bool = False
) -> list[str]:
    """What is told when a reply has so many bytes of a file, and its connection ends over it."""
    path.write_bytes(bytes(byte_count))
    file = RealDisk().open(str(path))
    if is_closed:
        file.close()
    reply = PendingReply()

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return reply

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            await client.ask(MetadataRequest(), 1)
            await until(lambda: any(one.in_flight for one in served.server.connections))
            span = FileRange(file=file, position=0, byte_count=byte_count)
            reply.fill([struct.pack(">i", byte_count), span])
            assert await client.is_closed()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    return caplog.messages


def refuse(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pread", refused)
    monkeypatch.setattr(os, "sendfile", refused)


@pytest.mark.parametrize("byte_count", [SMALL_BYTES, LARGE_BYTES], ids=["copied", "sent"])
def test_what_the_disk_refuses_is_told_with_its_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    byte_count: int,
) -> None:
    refuse(errno.EIO, monkeypatch)
    path = tmp_path / "segment"
    lines = lines_of_reply(path, caplog, byte_count=byte_count)
    assert lines == [f'disk read failed file={path} reason="Input/output error"']


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_want_of_descriptors_or_memory_is_not_told_as_a_bad_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    refuse(number, monkeypatch)
    path = tmp_path / "segment"
    lines = lines_of_reply(path, caplog, byte_count=SMALL_BYTES)
    assert lines == [f'disk read delayed file={path} reason="{os.strerror(number)}"']


def test_what_the_network_refuses_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(errno.EPIPE, monkeypatch)
    assert lines_of_reply(tmp_path / "segment", caplog, byte_count=LARGE_BYTES) == []


@pytest.mark.parametrize("byte_count", [SMALL_BYTES, LARGE_BYTES], ids=["copied", "sent"])
def test_a_file_that_was_closed_meanwhile_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, byte_count: int
) -> None:
    path = tmp_path / "segment"
    assert lines_of_reply(path, caplog, byte_count=byte_count, is_closed=True) == []

"""Lines of standard input and of files, as they come.

A pipe or a terminal is waited for on the loop, so that what was typed is sent at once and Ctrl-C is
heard. Anything else is read in large pieces: files, and devices such as /dev/null, which epoll
refuses.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO

from penstock.model.error import PenstockError
from penstock.model.limit import KIB, MIB

PIECE_BYTES = 256 * KIB
LINE_BYTES_MAX = 64 * MIB


class LineTooLong(PenstockError):
    """A line that can't be a record: it has no end in sight."""


class NoStandardInput(PenstockError):
    """The command was started with its standard input closed."""


class Lines:
    """Splits pieces of bytes into lines; the last one needs no line end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_BYTES_MAX:
            raise LineTooLong(f"a line is longer than {LINE_BYTES_MAX} bytes")
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest.removesuffix(b"\r")] if rest else []


async def lines_of(files: Sequence[Path]) -> AsyncIterator[tuple[list[bytes], int]]:
    """Lines in pieces, with the number of bytes each piece had; of standard input without files."""
    if not files:
        async for lines in _lines_of_stdin():
            yield lines
    for path in files:
        with path.open("rb") as file:
            async for lines in _lines_of_file(file):
                yield lines


async def _lines_of_stdin() -> AsyncIterator[tuple[list[bytes], int]]:
    if sys.stdin is None:
        raise NoStandardInput("standard input is closed: name files, or give it something to read")
    stdin = sys.stdin.buffer
    if not _can_be_waited_for(stdin.fileno()):
        async for read in _lines_of_file(stdin):
            yield read
        return
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
    try:
        lines = Lines()
        while piece := await reader.read(PIECE_BYTES):
            yield lines.feed(piece), len(piece)
        yield lines.end(), 0
    finally:
        transport.close()


def _can_be_waited_for(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _lines_of_file(file: BinaryIO) -> AsyncIterator[tuple[list[bytes], int]]:
    lines = Lines()
    while piece := file.read(PIECE_BYTES):
        yield lines.feed(piece), len(piece)
        # The loop gets its turn between pieces, however fast the disk is.
        await asyncio.sleep(0)
    yield lines.end(), 0

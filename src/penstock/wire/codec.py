"""Bytes to messages and back. Start here.

`decode` and its kin raise MalformedMessage, and nothing else, whatever the bytes are. `encode`
takes messages that we made ourselves and so raises only for our own bugs. Which versions a message
has is on its class (`VERSIONS`); asking for another one is a bug too, so whoever serves peers
checks the version first.

The reader and the writer of a version are compiled when they are first asked for, about a
millisecond each, and kept on the class.
"""

import struct
from typing import Any, Protocol, TypeVar

from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.reader_source import compile_reader
from penstock.wire.writer_source import compile_writer

AnyMessage = TypeVar("AnyMessage", bound=Message)


class Splice(Protocol):
    """Bytes that are sent without being held: a range of a file."""

    @property
    def byte_count(self) -> int: ...


Buffer = bytes | bytearray | memoryview
Part = Buffer | Splice
Records = Buffer | Splice | list[Part]


def decode(cls: type[AnyMessage], version: int, data: memoryview, position: int = 0) -> AnyMessage:
    """The message at `position`; what follows it is of no interest."""
    return decode_prefix(cls, version, data, position)[0]


def decode_exact(
    cls: type[AnyMessage], version: int, data: memoryview, position: int = 0
) -> AnyMessage:
    """The message that takes all bytes from `position` to the end."""
    message, end = decode_prefix(cls, version, data, position)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow a {cls.__name__} {version}")
    return message


def decode_prefix(
    cls: type[AnyMessage], version: int, data: memoryview, position: int = 0
) -> tuple[AnyMessage, int]:
    """The message at `position`, and the position after it."""
    read = cls.READERS.get(version)
    if read is None:
        read = cls.READERS[version] = compile_reader(cls, version)
    try:
        return read(data, position)
    except (struct.error, IndexError) as error:
        raise MalformedMessage(f"{cls.__name__} {version} is cut off") from error


def encode(message: Message, version: int) -> bytes:
    """The message as bytes. Records in it must be bytes, not splices."""
    return b"".join(pieces_of(message, version)[0])


def encode_parts(message: Message, version: int) -> list[Part]:
    """The message as few buffers; record batches in it are handed on without a copy."""
    pieces, splices = pieces_of(message, version)
    return join_pieces(pieces, splices)


def pieces_of(message: Message, version: int) -> tuple[list[Any], list[int]]:
    """The message in the pieces its writer made, and which of them are records."""
    write = message.WRITERS.get(version)
    if write is None:
        write = message.WRITERS[version] = compile_writer(type(message), version)
    pieces: list[Any] = []
    splices: list[int] = []
    write(message, pieces, splices)
    return pieces, splices


def join_pieces(pieces: list[Any], splices: list[int]) -> list[Part]:
    """Joins the pieces between records."""
    parts: list[Part] = []
    done = 0
    for position in splices:
        if position > done:
            parts.append(b"".join(pieces[done:position]))
        parts.append(pieces[position])
        done = position + 1
    if done < len(pieces):
        parts.append(b"".join(pieces[done:]))
    return parts


def byte_count(parts: list[Part]) -> int:
    """How many bytes the parts are on the wire."""
    return sum(map(_size, parts))


def _size(part: Part) -> int:
    if isinstance(part, memoryview):
        return part.nbytes
    if isinstance(part, (bytes, bytearray)):
        return len(part)
    return part.byte_count

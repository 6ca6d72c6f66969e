"""The pieces of the protocol that have no fixed size: variable-length numbers, and the fields
nobody knows.

An unsigned varint holds seven bits a byte, lowest first; the top bit says that more follow. Five
bytes at most: all of Kafka's lengths and tags have 32 bits. Compact strings, bytes and arrays carry
their length plus one, so that 0 is null.
"""

from typing import Final

from penstock.model.limit import TAGGED_FIELDS_MAX
from penstock.wire.errors import MalformedMessage

VARINT_BYTES_MAX: Final = 5
STRING_BYTES_MAX: Final = 32767
TEXT_BYTES_SAFE: Final = STRING_BYTES_MAX // 3  # so many fit also when none of them is UTF-8

# The varints of one byte, made once: nearly every length and tag count is one of them.
SHORT_VARINTS: Final = tuple(bytes((number,)) for number in range(128))


def outgrows(text: str) -> bool:
    """Whether text that was read is too long to be written: what is not UTF-8 grows by reading."""
    return len(text.encode()) > STRING_BYTES_MAX


def uvarint(number: int) -> bytes:
    """An unsigned varint of 32 bits."""
    assert 0 <= number < 1 << 32, number
    if number < 128:
        return SHORT_VARINTS[number]
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and the position after it."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    return long_uvarint(data, at + 1, byte)


def long_uvarint(data: memoryview, at: int, first: int) -> tuple[int, int]:
    """Goes on after a first byte that has its top bit set."""
    number = first & 127
    for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number >= 1 << 32:
                break
            return number, at
    raise MalformedMessage("a variable-length number has more than 32 bits")


def skip_tagged_fields(data: memoryview, at: int, count: int) -> int:
    """Passes over `count` tagged fields, whatever they are, and returns where they end."""
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"more than {TAGGED_FIELDS_MAX} tagged fields")
    end = len(data)
    for _ in range(count):
        _tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
        if at > end:
            raise MalformedMessage("a tagged field is cut off")
    return at

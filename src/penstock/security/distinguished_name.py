"""The name in a certificate, as Java prints it: RFC 2253, the form that ACLs are written with.

    CN=orders,OU=Shop,O=Example,C=DE

    Certificate   SEQUENCE { tbs, algorithm, signature }
    tbs           SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject, ... }
    subject       SEQUENCE of SET of SEQUENCE { type: OBJECT IDENTIFIER, value }

The parts stand in the reverse of their order in the certificate. Types outside of RFC 2253's table
are written with their number, and their value as hexadecimal DER, as `X500Principal.getName` does.
Only certificates that TLS has verified come here; what is malformed all the same is a
`MalformedCertificate`. Start reading at `subject_name`.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from penstock.model.error import PenstockError

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06
VERSION: Final = 0xA0
LENGTH_BYTES_MAX: Final = 4

KEYWORDS = MappingProxyType(
    {
        "2.5.4.3": "CN",
        "2.5.4.6": "C",
        "2.5.4.7": "L",
        "2.5.4.8": "ST",
        "2.5.4.10": "O",
        "2.5.4.11": "OU",
        "2.5.4.9": "STREET",
        "0.9.2342.19200300.100.1.25": "DC",
        "0.9.2342.19200300.100.1.1": "UID",
    }
)
# Texts by their DER tags: UTF8, Printable, T61 (read as Latin-1), IA5, General, BMP.
ENCODINGS = MappingProxyType(
    {
        0x0C: "utf-8",
        0x13: "ascii",
        0x14: "latin-1",
        0x16: "ascii",
        0x1B: "ascii",
        0x1E: "utf-16-be",
    }
)
ESCAPED: Final = frozenset(',=+<>#;"\\')


class MalformedCertificate(PenstockError):
    """Bytes that are no certificate with a name."""


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER; "" if it has none."""
    [outer] = _parts(certificate, SEQUENCE, most=1)
    [tbs] = _parts(_content(outer, SEQUENCE), SEQUENCE, most=1)
    fields = list(_parts(_content(tbs, SEQUENCE)))
    if fields and fields[0][0] == VERSION:
        del fields[0]
    if len(fields) < 5:
        raise MalformedCertificate("a certificate without a subject")
    parts = [_part_of_name(part) for part in _parts(_content(fields[4], SEQUENCE))]
    return ",".join(reversed(parts))


def _part_of_name(part: bytes) -> str:
    """One part of a name, which may have several values: `CN=x+OU=y`."""
    return "+".join(_value(pair) for pair in _parts(_content(part, SET)))


def _value(pair: bytes) -> str:
    found = list(_parts(_content(pair, SEQUENCE)))
    if len(found) != 2:
        raise MalformedCertificate("an attribute of a name is not a type and a value")
    kind = _dotted(_content(found[0], OBJECT_IDENTIFIER))
    value = found[1]
    keyword, encoding = KEYWORDS.get(kind), ENCODINGS.get(value[0])
    if keyword is None or encoding is None:
        return f"{keyword or kind}=#{value.hex()}"
    try:
        text = _content(value, value[0]).decode(encoding)
    except UnicodeDecodeError as error:
        raise MalformedCertificate("a name in an unknown encoding") from error
    return f"{keyword}={_escaped(text)}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(" \r"))
    end = len(text.rstrip(" \r"))
    return "".join(
        "\\00" if char == "\0"
        else f"\\{char}" if char in ESCAPED or position < lead or position >= end
        else char
        for position, char in enumerate(text)
    )  # fmt: skip


def _dotted(content: bytes) -> str:
    """An object identifier as numbers: 2.5.4.3."""
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] >= 0x80:
        raise MalformedCertificate("an object identifier that does not end")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _content(element: bytes, tag: int) -> bytes:
    """What an element of this tag holds."""
    found, start, _ = _header(element, 0)
    if found != tag:
        raise MalformedCertificate(f"expected the tag {tag:#x}, found {found:#x}")
    return element[start:]


def _parts(data: bytes, tag: int | None = None, *, most: int | None = None) -> Iterator[bytes]:
    """The elements of `data`, with their headers; the first of them has `tag`."""
    position = count = 0
    while position < len(data) and (most is None or count < most):
        found, start, size = _header(data, position)
        if tag is not None and found != tag:
            raise MalformedCertificate(f"expected the tag {tag:#x}, found {found:#x}")
        yield data[position : start + size]
        position = start + size
        count += 1
    if most is not None and count != most:
        raise MalformedCertificate("an element is missing")


def _header(data: bytes, position: int) -> tuple[int, int, int]:
    """Tag, where the content begins, and its size. No tag here has several bytes."""
    if position + 2 > len(data):
        raise MalformedCertificate("an element ends before its length")
    tag, size, start = data[position], data[position + 1], position + 2
    if size >= 0x80:
        count = size - 0x80
        if not 0 < count <= LENGTH_BYTES_MAX or start + count > len(data):
            raise MalformedCertificate("an element has no plain length")
        size = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + size > len(data):
        raise MalformedCertificate("an element is cut off")
    return tag, start, size

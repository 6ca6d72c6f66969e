r"""Format strings for records, with the directives of kcat's `-f`. Pure.

    %t topic        %k key        %K its length in bytes, -1 for null
    %p partition    %s value      %S its length in bytes, -1 for null
    %o offset       %h headers: name=value, separated by commas
    %T timestamp in milliseconds since 1970
    %% a percent sign       \n \r \t \\ as in Python

Null is written as nothing, in headers as NULL.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.cli.escape import escaped_bytes
from penstock.cli.typed_text import typed_bytes
from penstock.client.consume.fetched_data import ConsumedRecord

Field = Callable[[ConsumedRecord], bytes]

ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """Literal bytes, and fields that each record fills."""

    parts: tuple[bytes | Field, ...]

    def line(self, record: ConsumedRecord, *, raw: bool) -> bytes:
        """One record; unless `raw`, what could command a terminal is escaped in its fields."""
        return b"".join(
            part if isinstance(part, bytes) else _shown(part(record), raw=raw)
            for part in self.parts
        )


def parse_format(text: str) -> RecordFormat:
    """The format that a text says; ValueError with a sentence about what is wrong in it."""
    parts: list[bytes | Field] = []
    characters = iter(text)
    for one in characters:
        if one not in "%\\":
            parts.append(typed_bytes(one))
            continue
        name = next(characters, None)
        if name is None:
            raise ValueError(f"{one!r} at the end: expected {_expected(one)}")
        known = DIRECTIVES.get(name) if one == "%" else ESCAPES.get(name)
        if known is None:
            raise ValueError(f"'{one}{name}' is not known: expected {_expected(one)}")
        parts.append(known)
    return RecordFormat(tuple(parts))


def line_format(*, key_separator: str | None) -> RecordFormat:
    """The value in a line, after its key if a separator is given."""
    if key_separator is None:
        return RecordFormat((_value, b"\n"))
    return RecordFormat((_key, typed_bytes(key_separator), _value, b"\n"))


def key_format() -> RecordFormat:
    return RecordFormat((_key, b"\n"))


def _shown(content: bytes, *, raw: bool) -> bytes:
    return content if raw else escaped_bytes(content).encode()


def _expected(sign: str) -> str:
    if sign == "\\":
        return r"\n, \r, \t or \\"
    *names, last = (f"%{name}" for name in DIRECTIVES)
    return f"{', '.join(names)} or {last}"


def _key(record: ConsumedRecord) -> bytes:
    return record.key or b""


def _value(record: ConsumedRecord) -> bytes:
    return record.value or b""


def _length(content: bytes | None) -> bytes:
    return b"-1" if content is None else b"%d" % len(content)


def _headers(record: ConsumedRecord) -> bytes:
    return b",".join(
        b"%b=%b" % (name.encode(), b"NULL" if value is None else value)
        for name, value in record.headers
    )


DIRECTIVES: dict[str, bytes | Field] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": _key,
    "s": _value,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": _headers,
    "K": lambda record: _length(record.key),
    "S": lambda record: _length(record.value),
    "%": b"%",
}

"""The format of `server.properties` and of files for clients: Java's, as far as people write it.

`name=value`, `name: value` or `name value`; `#` and `!` begin a comment; a backslash at the end of
a line joins the next one to it, and before a character takes away its meaning. Files are in
ISO-8859-1, whatever the system's own encoding is, and any byte has a meaning in that.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.model.error import PenstockError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATORS = "=: \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines would take 0x85 for one as well


class BadProperties(PenstockError):
    """A line that says nothing."""


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file, as Java reads it."""
    return parse_properties(path.read_bytes().decode("iso-8859-1"))


def parse_properties(text: str) -> dict[str, str]:
    """Names and values in their order; a later line of the same name wins."""
    properties = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        if not name:
            raise BadProperties(f"a line without a name: {line!r}")
        properties[name] = value
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in _LINE_END.split(text):
        stripped = line.lstrip(" \t\f")
        if not joined and (not stripped or stripped[0] in "#!"):
            continue
        joined += stripped
        trailing = len(joined) - len(joined.rstrip("\\"))
        if trailing % 2 == 1:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _split(line: str) -> tuple[str, str]:
    """The name ends at the first separator that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in _SEPARATORS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(line[:at]), _unescape(rest).rstrip()


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped == "u":
            digits = "".join(next(characters, "") for _ in range(4))
            try:
                out.append(chr(int(digits, 16)))
            except ValueError as error:
                raise BadProperties(f"\\u{digits} is no character") from error
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Two escapes may be the halves of one character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

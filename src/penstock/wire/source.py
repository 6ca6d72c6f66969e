"""What the generators of readers and writers share: source lines, their names, and which fields a
version has.

`wire/reader_source` and `wire/writer_source` turn the declaration of a message into one flat
function for one version: nested structs become nested loops, and neighbouring fields of fixed size
become one call of a prepared `struct.Struct`.
"""

import struct
from typing import Any

from penstock.wire.definition import Field, Kind, Message, Struct

FIXED_FORMATS: dict[Kind, str] = {
    Kind.BOOL: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.UINT16: "H",
    Kind.INT32: "i",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
    Kind.UUID: "16s",
}


class Source:
    """A function being written: its lines, and the names that they refer to."""

    def __init__(self, *, message: type[Message], version: int) -> None:
        assert version in message.VERSIONS, (message.__name__, version)
        flexible_from = message.FLEXIBLE_FROM
        self.version = version
        self.flexible = flexible_from is not None and version >= flexible_from
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._fresh = 0

    def plain_fields(self, cls: type[Struct]) -> list[Field]:
        """The fields of `cls` that this version carries in place, in their order."""
        return [f for f in cls.FIELDS if self.version in f.versions and not self.is_tagged(f)]

    def tagged_fields(self, cls: type[Struct]) -> list[Field]:
        """The tagged fields of this version, in the order of their tags."""
        fields = [f for f in cls.FIELDS if self.version in f.versions and self.is_tagged(f)]
        return sorted(fields, key=lambda field: field.tag or 0)

    def is_tagged(self, field: Field) -> bool:
        return self.flexible and field.tag is not None

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def indent(self) -> None:
        self._depth += 1

    def dedent(self) -> None:
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable that nothing else uses."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def share(self, name: str, value: object) -> str:
        """Lets the function refer to `value`, under `name` or one made from it."""
        known = self.names.setdefault(name, value)
        if known is not value:
            name = self.fresh(name)
            self.names[name] = value
        return name

    def fixed(self, formats: str) -> tuple[str, struct.Struct]:
        """A prepared struct for a run of fixed-size fields, with a name to call its method by."""
        prepared = struct.Struct(">" + formats)
        return "_".join(["run", *formats.replace("?", "o")]), prepared

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def size_min(field: Field, *, version: int, flexible: bool) -> int:
    """The fewest bytes that one value of `field` takes in this version."""
    if field.kind in FIXED_FORMATS:
        return struct.calcsize(">" + FIXED_FORMATS[field.kind])
    if field.kind is Kind.STRUCT:
        assert field.struct is not None
        if field.nullable_in(version):
            return 1
        plain = [f for f in field.struct.FIELDS if version in f.versions and f.tag is None]
        total = sum(size_min(f, version=version, flexible=flexible) for f in plain)
        return total + (1 if flexible else 0)
    if flexible:
        return 1
    return 2 if field.kind is Kind.STRING else 4

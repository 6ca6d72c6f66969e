"""Writes the reader of one message version as Python source.

    read(data: memoryview, at: int) -> (message, position after it)

A reader trusts nothing. Fixed-size runs and single bytes are bounds-checked by `struct` and by
indexing, which raise struct.error and IndexError; everything of variable length is compared with
what is left before it is taken, and an array before a single element is made, so a small frame
never costs more memory than its own size times a small factor. The elements of all arrays of a
request and its tagged fields are counted as well, since its frame may be large and each of them
costs time, for which all clients wait. `wire/codec` turns all of it into MalformedMessage.

Text that is not UTF-8 is read with U+FFFD in the place of what is wrong, as Kafka does: a name of
that kind is then refused by the rule for names, and the rest of the request answered. One wrong
byte becomes three; text that thereby grows beyond what a string holds, and so could not be sent
back, is malformed.
"""

import struct
from typing import cast

from penstock.model.limit import ARRAY_LENGTH_MAX, REQUEST_ENTRIES_MAX, TAGGED_FIELDS_MAX
from penstock.wire.definition import Field, Kind, Message, Reader, Struct
from penstock.wire.errors import MalformedMessage
from penstock.wire.primitive import (
    STRING_BYTES_MAX,
    TEXT_BYTES_SAFE,
    long_uvarint,
    outgrows,
    read_uvarint,
    skip_tagged_fields,
)
from penstock.wire.source import FIXED_FORMATS, Source, size_min


def compile_reader(message: type[Message], version: int) -> Reader:
    generator = ReaderSource(message, version)
    code = compile(generator.source.text(), f"<reader of {message.__name__} {version}>", "exec")
    names = generator.source.names
    exec(code, names)
    return cast(Reader, names["read"])


def reader_text(message: type[Message], version: int) -> str:
    """The source of a reader, for people."""
    return ReaderSource(message, version).source.text()


class ReaderSource:
    """Collects a run of fixed-size reads in `_formats` and `_targets` until something breaks it."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.source = Source(message=message, version=version)
        self.source.names.update(
            new=object.__new__,
            unpack_from=struct.unpack_from,
            read_uvarint=read_uvarint,
            long_uvarint=long_uvarint,
            outgrows=outgrows,
            skip_tagged_fields=skip_tagged_fields,
            cut_off=_cut_off,
            bad_length=_bad_length,
            bad_tag=_bad_tag,
            too_many=_too_many,
        )
        # What answers us may be as long as a cluster is large; what asks us may not.
        self._counted = message.__name__.endswith("Request")
        self._formats: list[str] = []
        self._targets: list[str] = []
        self.source.line("def read(data, at):")
        self.source.indent()
        self.source.line("end = len(data)")
        if self._counted:
            self.source.line(f"entries_left = {REQUEST_ENTRIES_MAX}")
        result = self.source.fresh("o")
        self._struct(message, result)
        self.source.line(f"return {result}, at")

    def _struct(self, cls: type[Struct], target: str) -> None:
        source = self.source
        source.line(f"{target} = new({source.share(cls.__name__, cls)})")
        for field in source.plain_fields(cls):
            self._value(field, f"{target}.{field.name}")
        tagged = source.tagged_fields(cls)
        absent = [field for field in cls.FIELDS if source.version not in field.versions]
        if source.flexible:
            self._count_byte("n")
        self._flush()
        for field in [*absent, *tagged]:
            source.line(f"{target}.{field.name} = {self._default(field)}")
        if source.flexible:
            self._tagged(tagged, target)

    def _value(self, field: Field, target: str) -> None:
        """Reads one value in place into `target`."""
        if field.kind in FIXED_FORMATS:
            self._run(FIXED_FORMATS[field.kind], target)
        elif field.kind is Kind.STRUCT:
            self._flush()
            assert field.struct is not None
            if field.nullable_in(self.source.version):
                self._nullable_struct(field.struct, target)
            else:
                self._inner_struct(field.struct, target)
        elif field.kind is Kind.ARRAY:
            self._length(field, target)
            self._array(field, target)
            self.source.dedent()
        else:
            self._length(field, target)
            self._octets(field, target)
            self.source.dedent()

    def _inner_struct(self, cls: type[Struct], target: str) -> None:
        inner = self.source.fresh("o")
        self._struct(cls, inner)
        self.source.line(f"{target} = {inner}")

    def _nullable_struct(self, cls: type[Struct], target: str) -> None:
        source = self.source
        source.line("n = data[at]")
        source.line("at += 1")
        source.line("if n == 255:")
        source.line(f"    {target} = None")
        source.line("elif n != 1:")
        source.line("    raise bad_length(n)")
        source.line("else:")
        source.indent()
        self._inner_struct(cls, target)
        source.dedent()

    def _length(self, field: Field, target: str) -> None:
        """Reads a length into n, sets a null, and opens the block for all other lengths."""
        source = self.source
        if source.flexible:
            self._count_byte("n")
            self._flush()
            source.line("if n > 127:")
            source.line("    n, at = long_uvarint(data, at, n)")
            source.line("n -= 1")
        else:
            self._run("h" if field.kind is Kind.STRING else "i", "n")
            self._flush()
        source.line("if n < 0:")
        if field.nullable_in(source.version):
            if not source.flexible:
                source.line("    if n != -1:")
                source.line("        raise bad_length(n)")
            source.line(f"    {target} = None")
        else:
            source.line("    raise bad_length(n)")
        source.line("else:")
        source.indent()

    def _octets(self, field: Field, target: str) -> None:
        source = self.source
        source.line("stop = at + n")
        if field.kind is Kind.STRING and source.flexible:
            source.line(f"if stop > end or n > {STRING_BYTES_MAX}:")
        else:
            source.line("if stop > end:")
        source.line("    raise cut_off(n, end - at)")
        if field.kind is Kind.STRING:
            source.line(f'{target} = data[at:stop].tobytes().decode("utf-8", "replace")')
            source.line(f"if n > {TEXT_BYTES_SAFE} and outgrows({target}):")
            source.line("    raise bad_length(n)")
        elif field.kind is Kind.RECORDS:
            source.line(f"{target} = data[at:stop]")
        else:
            source.line(f"{target} = bytes(data[at:stop])")
        source.line("at = stop")

    def _array(self, field: Field, target: str) -> None:
        source, element = self.source, field.element
        assert element is not None
        least = size_min(element, version=source.version, flexible=source.flexible)
        assert least > 0, field.name
        source.line(f"if n * {least} > end - at:")
        source.line("    raise cut_off(n, end - at)")
        if self._counted:
            self._count_entries()
        else:
            source.line(f"if n > {ARRAY_LENGTH_MAX}:")
            source.line(f"    raise too_many({ARRAY_LENGTH_MAX})")
        if element.kind in FIXED_FORMATS and element.kind is not Kind.UUID:
            source.line(
                f'{target} = list(unpack_from(f">{{n}}{FIXED_FORMATS[element.kind]}", data, at))'
            )
            source.line(f"at += n * {least}")
            return
        items, item = source.fresh("items"), source.fresh("item")
        source.line(f"{target} = {items} = []")
        source.line("for _ in range(n):")
        source.indent()
        if element.kind is Kind.STRUCT and not element.nullable_in(source.version):
            assert element.struct is not None
            self._struct(element.struct, item)
        else:
            self._value(element, item)
            self._flush()
        source.line(f"{items}.append({item})")
        source.dedent()

    def _count_entries(self) -> None:
        """Takes n of what the request may have."""
        self.source.line("entries_left -= n")
        self.source.line("if entries_left < 0:")
        self.source.line(f"    raise too_many({REQUEST_ENTRIES_MAX})")

    def _tagged(self, fields: list[Field], target: str) -> None:
        """Reads the tagged fields of a struct, their number in n. Defaults are set already."""
        source = self.source
        source.line("if n:")
        source.indent()
        source.line("if n > 127:")
        source.line("    n, at = long_uvarint(data, at, n)")
        if self._counted:
            self._count_entries()
        if fields:
            source.line(f"if n > {TAGGED_FIELDS_MAX}:")
            source.line(f"    raise too_many({TAGGED_FIELDS_MAX})")
            stop = source.fresh("tag_stop")
            source.line("for _ in range(n):")
            source.indent()
            source.line("tag, at = read_uvarint(data, at)")
            source.line("n, at = read_uvarint(data, at)")
            source.line(f"{stop} = at + n")
            source.line(f"if {stop} > end:")
            source.line("    raise cut_off(n, end - at)")
            for position, field in enumerate(fields):
                source.line(f"{'elif' if position else 'if'} tag == {field.tag}:")
                source.indent()
                self._value(field, f"{target}.{field.name}")
                self._flush()
                source.dedent()
            source.line("else:")
            source.line(f"    at = {stop}")
            source.line(f"if at != {stop}:")
            source.line("    raise bad_tag(tag)")
            source.dedent()
        else:
            source.line("at = skip_tagged_fields(data, at, n)")
        source.dedent()

    def _default(self, field: Field) -> str:
        if isinstance(field.default, list):
            return "[]"
        if isinstance(field.default, type):
            return f"{self.source.share(field.default.__name__, field.default)}()"
        return repr(field.default)

    def _run(self, formats: str, target: str) -> None:
        self._formats.append(formats)
        self._targets.append(target)

    def _count_byte(self, target: str) -> None:
        """The first byte of a varint joins the run before it."""
        self._run("B", target)

    def _flush(self) -> None:
        """Writes the run collected so far as one unpack."""
        if not self._formats:
            return
        formats, targets = "".join(self._formats), ", ".join(self._targets)
        if formats == "B":
            self.source.line(f"{targets} = data[at]")
            self.source.line("at += 1")
        else:
            name, prepared = self.source.fixed(formats)
            self.source.names[name] = prepared.unpack_from
            comma = "," if len(self._targets) == 1 else ""
            self.source.line(f"{targets}{comma} = {name}(data, at)")
            self.source.line(f"at += {prepared.size}")
        self._formats.clear()
        self._targets.clear()


def _cut_off(length: int, left: int) -> MalformedMessage:
    return MalformedMessage(f"a length of {length} is more than the {left} bytes left allow")


def _bad_length(length: int) -> MalformedMessage:
    return MalformedMessage(f"a length of {length} where there must be a value")


def _too_many(entries_max: int) -> MalformedMessage:
    return MalformedMessage(f"more than {entries_max} entries")


def _bad_tag(tag: int) -> MalformedMessage:
    return MalformedMessage(f"tagged field {tag} is not as long as it says")

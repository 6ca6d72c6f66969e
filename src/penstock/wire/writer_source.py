"""Writes the writer of one message version as Python source.

    write(message, out: list of buffers, splices: list of positions) -> None

A writer appends the pieces of the message to `out`; where a piece is record batches it notes the
position in `splices`, so that `wire/codec` can join all the rest and hand the batches on as they
are. A message that does not fit its own declaration (a null where there can be none, a number too
large) is our own bug and raises whatever it raises.
"""

import struct
from typing import cast

from penstock.wire.definition import Field, Kind, Message, Struct, Writer
from penstock.wire.primitive import SHORT_VARINTS, STRING_BYTES_MAX, uvarint
from penstock.wire.source import FIXED_FORMATS, Source
from penstock.wire.splicing import add_records, records_size


def compile_writer(message: type[Message], version: int) -> Writer:
    generator = WriterSource(message, version)
    code = compile(generator.source.text(), f"<writer of {message.__name__} {version}>", "exec")
    names = generator.source.names
    exec(code, names)
    return cast(Writer, names["write"])


def writer_text(message: type[Message], version: int) -> str:
    """The source of a writer, for people."""
    return WriterSource(message, version).source.text()


class WriterSource:
    """Collects a run of fixed-size writes in `_formats` and `_values` until something breaks it."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.source = Source(message=message, version=version)
        self.source.names.update(
            short=SHORT_VARINTS,
            uvarint=uvarint,
            records_size=records_size,
            add_records=add_records,
            tagged_pieces=_tagged_pieces,
            pack_many=struct.pack,
            cut=_cut,
        )
        self._formats: list[str] = []
        self._values: list[str] = []
        self.source.line("def write(message, out, splices):")
        self.source.indent()
        self.source.line("add = out.append")
        self._struct(message, "message")
        self._flush()

    def _struct(self, cls: type[Struct], value: str) -> None:
        for field in self.source.plain_fields(cls):
            self._value(field, f"{value}.{field.name}")
        tagged = self.source.tagged_fields(cls)
        if tagged:
            self._flush()
            self._tagged(tagged, value)
        elif self.source.flexible:
            self._formats.append(
                "x"
            )  # no tagged fields: one zero byte, which `struct` calls padding

    def _value(self, field: Field, value: str) -> None:
        """Writes one value in place."""
        if field.kind in FIXED_FORMATS:
            self._formats.append(FIXED_FORMATS[field.kind])
            self._values.append(value)
            return
        source = self.source
        if field.kind is Kind.STRUCT and not field.nullable_in(source.version):
            assert field.struct is not None
            inner = source.fresh("s")
            source.line(f"{inner} = {value}")
            self._struct(field.struct, inner)
            return
        inner = source.fresh("v")
        source.line(f"{inner} = {value}")
        if not field.nullable_in(source.version):
            self._present(field, inner)
            return
        self._flush()
        source.line(f"if {inner} is None:")
        source.indent()
        self._null(field)
        source.dedent()
        source.line("else:")
        source.indent()
        self._present(field, inner)
        self._flush()
        source.dedent()

    def _null(self, field: Field) -> None:
        if field.kind is Kind.STRUCT:
            null = b"\xff"
        elif self.source.flexible:
            null = b"\x00"
        else:
            null = b"\xff" * (2 if field.kind is Kind.STRING else 4)
        self.source.line(f"add({null!r})")

    def _present(self, field: Field, value: str) -> None:
        source = self.source
        if field.kind is Kind.STRUCT:
            assert field.struct is not None
            source.line('add(b"\\x01")')
            self._struct(field.struct, value)
        elif field.kind is Kind.STRING:
            source.line(f"{value} = {value}.encode()")
            if field.is_prose:
                source.line(f"if len({value}) > {STRING_BYTES_MAX}:")
                source.line(f"    {value} = cut({value})")
            elif source.flexible:
                source.line(f"assert len({value}) <= {STRING_BYTES_MAX}")
            self._length("h", f"len({value})")
            source.line(f"add({value})")
        elif field.kind is Kind.BYTES:
            self._length("i", f"len({value})")
            source.line(f"add({value})")
        elif field.kind is Kind.RECORDS:
            self._length("i", f"records_size({value})")
            source.line(f"add_records({value}, out, splices)")
        else:
            self._array(field, value)

    def _array(self, field: Field, value: str) -> None:
        source, element = self.source, field.element
        assert element is not None
        self._length("i", f"len({value})")
        if element.kind in FIXED_FORMATS and element.kind is not Kind.UUID:
            source.line(f"if {value}:")
            source.line(
                f'    add(pack_many(f">{{len({value})}}{FIXED_FORMATS[element.kind]}", *{value}))'
            )
            return
        item = source.fresh("e")
        source.line(f"for {item} in {value}:")
        source.indent()
        if element.kind is Kind.STRUCT and not element.nullable_in(source.version):
            assert element.struct is not None
            self._struct(element.struct, item)
        else:
            self._value(element, item)
        self._flush()
        source.dedent()

    def _length(self, formats: str, length: str) -> None:
        source = self.source
        if source.flexible:
            self._flush()
            source.line(f"n = {length} + 1")
            source.line("add(short[n] if n < 128 else uvarint(n))")
        else:
            self._formats.append(formats)
            self._values.append(length)
            self._flush()

    def _tagged(self, fields: list[Field], value: str) -> None:
        """Writes the tagged fields that differ from their default.

        A tagged field is preceded by its size, so its pieces are first written to a list of their
        own. Tagged fields are rare enough for a struct to have none set: then this is one test per
        field.
        """
        source = self.source
        count = source.fresh("count")
        for position, field in enumerate(fields):
            differs = self._differs(field, f"{value}.{field.name}")
            source.line(f"{count} {'+=' if position else '='} {differs}")
        source.line(f"add(short[{count}])")
        source.line(f"if {count}:")
        source.indent()
        for field in fields:
            source.line(f"if {self._differs(field, f'{value}.{field.name}')}:")
            source.indent()
            outer = source.fresh("outer")
            source.line(f"{outer} = out")
            source.line("out = []")
            source.line("add = out.append")
            self._value(field, f"{value}.{field.name}")
            self._flush()
            source.line(f"{outer} += tagged_pieces({field.tag}, out)")
            source.line(f"out = {outer}")
            source.line("add = out.append")
            source.dedent()
        source.dedent()

    def _differs(self, field: Field, value: str) -> str:
        if field.default is None:
            return f"({value} is not None)"
        return f"({value} != {field.default!r})"

    def _flush(self) -> None:
        """Writes the run collected so far as one pack."""
        if not self._formats:
            return
        formats = "".join(self._formats)
        if not formats.strip("x"):
            self.source.line(f"add({bytes(len(formats))!r})")
        else:
            name, prepared = self.source.fixed(formats)
            self.source.names[name] = prepared.pack
            self.source.line(f"add({name}({', '.join(self._values)}))")
        self._formats.clear()
        self._values.clear()


def _tagged_pieces(tag: int, pieces: list[bytes]) -> tuple[bytes, ...]:
    content = b"".join(pieces)
    return uvarint(tag), uvarint(len(content)), content


def _cut(prose: bytes) -> bytes:
    """As much as a string can hold, in whole characters."""
    return prose[:STRING_BYTES_MAX].decode(errors="ignore").encode()

"""kio, written by others from the same facts, reads what we write and writes what we read."""

import dataclasses
import datetime
import io
from collections.abc import Callable
from typing import Any
from uuid import UUID

from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy
from kio.serial import entity_reader, entity_writer

from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import OWN_TAGS_FROM, Field, Kind, Message, Struct

EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
NO_UUID = UUID(int=0)  # kio shows it as None

PHASES = (Phase.generate, Phase.shrink)  # explaining a difference would take minutes


def test_kio_and_we_read_each_other(
    message: type[Message],
    version: int,
    kio: Any,
    filled: Callable[[type[Message], int], SearchStrategy[Message]],
) -> None:
    read, write = entity_reader(kio), entity_writer(kio)

    @settings(max_examples=8, deadline=None, database=None, phases=PHASES)
    @given(original=filled(message, version))
    def agree(original: Message) -> None:
        drop_own_tags(original)
        data = encode(original, version)
        value, size = read(data, 0)
        assert size == len(data)
        assert plain_kio(value) == plain(original, version)
        buffer = io.BytesIO()
        write(buffer, value)
        back = decode_exact(message, version, memoryview(buffer.getvalue()))
        assert plain(back, version) == plain(original, version)

    agree()


def is_own(field: Field) -> bool:
    return field.tag is not None and field.tag >= OWN_TAGS_FROM


def drop_own_tags(struct: Struct) -> None:
    """kio raises for a tag that it does not know, which Kafka skips."""
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if is_own(field):
            setattr(struct, field.name, getattr(type(struct)(), field.name))
        elif isinstance(value, Struct):
            drop_own_tags(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    drop_own_tags(item)


def plain(struct: Struct, version: int) -> dict[str, object]:
    """The fields that a version has, by name, as simple values."""
    values: dict[str, object] = {}
    for field in struct.FIELDS:
        if version not in field.versions or is_own(field):
            continue
        value = getattr(struct, field.name)
        if value is None and field.tag is not None and field.kind is Kind.STRUCT:
            assert field.struct is not None
            value = field.struct()  # absent, which kio shows as the default struct
        values[field.name] = plain_value(value, version)
    return values


def plain_value(value: object, version: int) -> object:
    if isinstance(value, Struct):
        return plain(value, version)
    if isinstance(value, list):
        return [plain_value(item, version) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def plain_kio(value: Any) -> object:
    if dataclasses.is_dataclass(value):
        values = {}
        for field in dataclasses.fields(value):
            name, content = field.name.rstrip("_"), getattr(value, field.name)
            kind = field.metadata.get("kafka_type", "")
            if kind.startswith(("timedelta", "datetime")):
                name += "_ms"
            if kind.startswith("datetime"):
                content = -1 if content is None else content
            if kind == "uuid" and field.type == UUID | None:
                content = content or NO_UUID
            elif kind == "uuid" and content is not None:
                content = tuple(item or NO_UUID for item in content)
            values[name] = plain_kio(content)
        return values
    match value:
        case tuple():
            return [plain_kio(item) for item in value]
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            return (value - EPOCH) // datetime.timedelta(milliseconds=1)
        case UUID():
            return value.bytes
        case _:
            return value

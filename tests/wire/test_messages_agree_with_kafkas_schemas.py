"""Messages are declared as Apache Kafka defines them, in the definitions that its jars contain.

Unlike the comparisons of bytes with kio and aiokafka, this covers every message and every version:
which versions there are; order, types, tags and null values of fields; and the defaults that decide
whether a tagged field travels.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from penstock.wire.definition import OWN_TAGS_FROM, Field, Kind, Message, Struct, versions_of

KINDS = {
    Kind.BOOL: "bool",
    Kind.INT8: "int8",
    Kind.INT16: "int16",
    Kind.UINT16: "uint16",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.FLOAT64: "float64",
    Kind.UUID: "uuid",
    Kind.STRING: "string",
    Kind.BYTES: "bytes",
    Kind.RECORDS: "records",
}
DEFAULTS: Mapping[str, object] = {"bool": False, "uuid": bytes(16), "string": ""}


def test_message_is_declared_as_in_kafka(
    message: type[Message], version: int, kafka_jars: Path
) -> None:
    schema = schemas(kafka_jars)[message.__name__]
    kafkas = versions_of(schema["validVersions"])
    assert message.VERSIONS.max == kafkas.max
    assert message.VERSIONS.min <= kafkas.min
    if version < kafkas.min:
        return  # for old clients; Kafka no longer defines it
    flexible_from = schema["flexibleVersions"]
    if flexible_from == "none":
        assert message.FLEXIBLE_FROM is None
    else:
        assert versions_of(flexible_from).min == message.FLEXIBLE_FROM
    if schema["type"] in ("request", "response", "metadata", "coordinator-key"):
        assert schema["apiKey"] == message.API_KEY
    structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    assert declared(message, version) == defined(schema["fields"], structs, version)


def declared(struct: type[Struct], version: int) -> list[tuple[object, ...]]:
    return [
        (plain_name(field.name), *declared_value(field, version))
        for field in struct.FIELDS
        if version in field.versions and (field.tag is None or field.tag < OWN_TAGS_FROM)
    ]


def declared_value(field: Field, version: int) -> tuple[object, ...]:
    kind = declared_kind(field, version)
    is_nullable = field.nullable_in(version)
    if field.tag is None:
        return kind, is_nullable
    default = None if field.kind is Kind.STRUCT else field.default
    return kind, is_nullable, field.tag, default


def declared_kind(field: Field, version: int) -> object:
    if field.kind is Kind.ARRAY:
        assert field.element is not None
        return [declared_kind(field.element, version)]
    if field.kind is Kind.STRUCT:
        assert field.struct is not None
        return declared(field.struct, version)
    return KINDS[field.kind]


def defined(
    fields: list[dict[str, Any]], structs: Mapping[str, list[dict[str, Any]]], version: int
) -> list[tuple[object, ...]]:
    found = []
    for field in fields:
        if version not in versions_of(field.get("versions") or field["taggedVersions"]):
            continue
        kind = defined_kind(field, structs, version)
        nullable = field.get("nullableVersions")
        is_nullable = nullable is not None and version in versions_of(nullable)
        value: tuple[object, ...] = (plain_name(field["name"]), kind, is_nullable)
        if "tag" in field:
            value += (field["tag"], defined_default(field))
        found.append(value)
    return found


def defined_kind(
    field: dict[str, Any], structs: Mapping[str, list[dict[str, Any]]], version: int
) -> object:
    name = field["type"].removeprefix("[]")
    kind: object = name
    if name not in KINDS.values():
        kind = defined(field.get("fields") or structs[name], structs, version)
    return [kind] if field["type"].startswith("[]") else kind


def defined_default(field: dict[str, Any]) -> object:
    """None for null, and for a struct, which is absent then. JSON's own null is no default."""
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind.startswith(("int", "uint")):
        return int(str(default or 0), 0)
    assert default in (None, "false"), field
    return DEFAULTS.get(kind)


def plain_name(name: str) -> str:
    """A name that is written alike in both spellings."""
    return name.replace("_", "").lower()


@cache
def schemas(jars: Path) -> dict[str, dict[str, Any]]:
    """The definitions of messages and records, by name."""
    found = {}
    for jar in sorted(jars.glob("kafka-*.jar")):
        with zipfile.ZipFile(jar) as files:
            for path in files.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", path):
                    text = files.read(path).decode()
                    schema = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
                    found[schema["name"]] = schema
    return found

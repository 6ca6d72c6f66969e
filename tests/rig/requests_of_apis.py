"""Requests made from their declarations alone: for tests that ask something of every API."""

from penstock.wire.definition import Field, Kind, Message, Struct

PRESENT = {
    Kind.BOOL: True,
    Kind.FLOAT64: 1.0,
    Kind.UUID: bytes(range(16)),
    Kind.STRING: "name",
    Kind.BYTES: b"bytes",
    Kind.RECORDS: b"records",
}
NUMBER = 1


def full_request(message: type[Message], version: int) -> Message:
    """Every field of the version has a value, and every array one element."""
    return message(**_values(message, version))


def bare_request(message: type[Message], version: int) -> Message:
    """Every field that can be null is null; the others have their defaults, as empty arrays."""
    nulls = [f.name for f in message.FIELDS if version in f.versions and f.nullable_in(version)]
    return message(**dict.fromkeys(nulls))


def _values(struct: type[Struct], version: int) -> dict[str, object]:
    return {f.name: _value(f, version) for f in struct.FIELDS if version in f.versions}


def _value(field: Field, version: int) -> object:
    if field.kind is Kind.ARRAY:
        assert field.element is not None
        return [_value(field.element, version)]
    if field.kind is Kind.STRUCT:
        assert field.struct is not None
        return field.struct(**_values(field.struct, version))
    return PRESENT.get(field.kind, NUMBER)

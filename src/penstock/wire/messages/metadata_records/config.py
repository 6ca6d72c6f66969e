"""One setting of one resource; a null value removes it."""

from penstock.wire.definition import Message, int8, nullable, string


class ConfigRecord(Message, key=4, versions="0", flexible_from=0):
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = nullable(string())

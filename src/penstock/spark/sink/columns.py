"""The columns of what is written: which there must be, and of which types.

As with Spark's own Kafka sink: `value`, and if wanted `key`, `headers`, `topic` and `partition`;
an option `topic` goes before a column. Beyond it, `timestamp`. Other columns are left alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.spark.sink.errors import WrongColumns

BYTES = (BinaryType, StringType)
TYPES: Mapping[str, tuple[type[DataType], ...]] = {
    "key": BYTES,
    "value": BYTES,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
    "timestamp": (TimestampType,),
}
HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where each column stands; None where there is none."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None

    @property
    def places(self) -> list[int]:
        return list(self._by_name.values())

    @property
    def alone(self) -> "Columns":
        """Where they stand in rows that have these columns alone, in the order of their places."""
        return Columns(**{name: place for place, name in enumerate(self._by_name)})

    @property
    def _by_name(self) -> dict[str, int]:
        return {name: place for name, place in asdict(self).items() if place is not None}


def columns_of(schema: StructType, *, topic: str | None) -> Columns:
    """WrongColumns, in one line, where rows of this schema can't be written."""
    found: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in TYPES or (name == "topic" and topic is not None):
            continue
        if not isinstance(field.dataType, TYPES[name]) or (
            name == "headers" and not _are_headers(field.dataType)
        ):
            raise WrongColumns(
                f"column {field.name} is of type {field.dataType.simpleString()}: it must be"
                f" {_wanted(name)}"
            )
        found[name] = place
    if "value" not in found:
        raise WrongColumns(
            f"column value is missing: it must be {_wanted('value')};"
            f" there are {', '.join(schema.fieldNames()) or 'none'}"
        )
    if topic is None and "topic" not in found:
        raise WrongColumns("no topic is named: give option topic, or a column topic")
    return Columns(**found)


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


def _wanted(name: str) -> str:
    if name == "headers":
        return HEADERS
    return " or ".join(kind().simpleString() for kind in TYPES[name])

"""A change as a record of a topic: the primary key, the row as JSON or a tombstone, and headers.

Position and step put the changes of all partitions into one order. Beside it, as records of their
own: what happened to a table as a whole, and how far a database is captured. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.records.record import Headers
from penstock.spark.pipelines.cdc.pgoutput import Change, Column, Kind, lsn_number, lsn_text

KIND = "cdc.kind"  # snapshot, insert, update, delete or truncate; of events schema or truncate
POSITION = "cdc.position"  # of the transaction in the database's log, as a number
STEP = "cdc.step"  # of the change within its transaction


def key_of(change: Change) -> bytes:
    """The text of the key, or a JSON array where the key has several columns."""
    if len(change.key) == 1:
        return str(change.key[0]).encode()
    return compact_json(change.key)


def value_of(change: Change) -> bytes | None:
    return None if change.row is None else compact_json(change.row)


def headers_of(kind: Kind, *, position: int, step: int) -> Headers:
    return (
        (KIND, kind.value.encode()),
        (POSITION, b"%d" % position),
        (STEP, b"%d" % step),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchema:
    """What a reader of the events was last told of a table."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]


def encode_schema(table: str, schema: KnownSchema) -> bytes:
    columns = [
        {"name": column.name, "type": column.type}
        | ({} if column.modifier is None else {"modifier": column.modifier})
        for column in schema.columns
    ]
    return compact_json(
        {"event": Kind.SCHEMA.value, "table": table, "columns": columns, "key": schema.key}
    )


def encode_truncate(table: str, *, rows: int) -> bytes:
    """`rows`: how many of them the topic had."""
    return compact_json({"event": Kind.TRUNCATE.value, "table": table, "rows": rows})


def decode_schema(value: bytes) -> tuple[str, KnownSchema] | None:
    """The table and how it looks; None: the event is another one."""
    event = json.loads(value)
    if event["event"] != Kind.SCHEMA.value:
        return None
    columns = tuple(
        Column(name=column["name"], type=column["type"], modifier=column.get("modifier"))
        for column in event["columns"]
    )
    return event["table"], KnownSchema(columns=columns, key=tuple(event["key"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    lsn: int  # all that was committed up to here is in the cluster
    database: str  # which log it is a position of: the server's own number, and the name
    # From where on changes of a table count; what was before is in its snapshot. None: written
    # before tables had a beginning of their own, by a capture of the same tables.
    tables: Mapping[str, int] | None


def encode_position(position: Position) -> bytes:
    assert position.tables is not None
    tables = {table: lsn_text(lsn) for table, lsn in position.tables.items()}
    return compact_json(
        {"lsn": lsn_text(position.lsn), "database": position.database, "tables": tables}
    )


def decode_position(value: bytes) -> Position:
    said = json.loads(value)
    tables = said.get("tables")
    return Position(
        lsn=lsn_number(said["lsn"]),
        database=said["database"],
        tables=None if tables is None else {name: lsn_number(lsn) for name, lsn in tables.items()},
    )


def compact_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

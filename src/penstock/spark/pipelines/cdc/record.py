"""A change as a record of a topic: the primary key, the row as JSON or a tombstone, and headers.

Position and step put the changes of all partitions into one order. Beside it: how far a database is
captured, as a record. Pure.
"""

import json
from dataclasses import dataclass

from penstock.records.record import Headers
from penstock.spark.pipelines.cdc.pgoutput import Change, lsn_number, lsn_text

KIND = "cdc.kind"  # snapshot, insert, update or delete
POSITION = "cdc.position"  # of the transaction in the database's log, as a number
STEP = "cdc.step"  # of the change within its transaction


def key_of(change: Change) -> bytes:
    """The text of the key, or a JSON array where the key has several columns."""
    if len(change.key) == 1:
        return str(change.key[0]).encode()
    return compact_json(change.key)


def value_of(change: Change) -> bytes | None:
    return None if change.row is None else compact_json(change.row)


def headers_of(change: Change, *, position: int, step: int) -> Headers:
    return (
        (KIND, change.kind.value.encode()),
        (POSITION, b"%d" % position),
        (STEP, b"%d" % step),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    lsn: int  # all that was committed up to here is in the cluster
    database: str  # which log it is a position of: the server's own number, and the name


def encode_position(position: Position) -> bytes:
    return compact_json({"lsn": lsn_text(position.lsn), "database": position.database})


def decode_position(value: bytes) -> Position:
    told = json.loads(value)
    return Position(lsn=lsn_number(told["lsn"]), database=told["database"])


def compact_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

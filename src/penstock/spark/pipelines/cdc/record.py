"""A change as a record of a topic: the primary key, the row as JSON or a tombstone, and headers.

Position and step put the changes of all partitions into one order. Pure.
"""

import json

from penstock.records.record import Headers
from penstock.spark.pipelines.cdc.pgoutput import Change

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


def compact_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

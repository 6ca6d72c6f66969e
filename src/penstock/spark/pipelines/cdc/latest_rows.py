"""Records of a table's topic as rows, and which of them a store of the latest rows takes. Pure.

A row's place is that of its change in the database's log. It decides which of two is the later one,
even if they lie in different partitions, as after partitions were added. Records without a place,
such as those of topics that Spark writes, are taken in the order of their partition.
"""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.model.error import PenstockError
from penstock.spark.pipelines.cdc.record import POSITION, STEP


class BadRow(PenstockError):
    """A record that is no row of a table."""


class Place(NamedTuple):
    position: int
    step: int


NOWHERE = Place(0, 0)  # of records without a place


class Row(NamedTuple):
    key: str
    place: Place
    fields: dict[str, object] | None  # None: the row is gone


def row_of(record: ConsumedRecord) -> Row:
    where = f"{record.topic}:{record.partition} offset {record.offset}"
    if record.key is None:
        raise BadRow(f"{where}: the record has no key")
    headers = dict(record.headers)
    try:
        key = record.key.decode()
        place = Place(int(headers.get(POSITION) or 0), int(headers.get(STEP) or 0))
        fields = None if record.value is None else json.loads(record.value)
    except ValueError as error:
        raise BadRow(f"{where}: the record is no row as JSON: {error}") from error
    if not isinstance(fields, dict | None):
        raise BadRow(f"{where}: the record is no JSON object")
    return Row(key, place, fields)


def latest(rows: Iterable[Row], known: Mapping[str, Place]) -> list[Row]:
    """The last row of each key, without those that are older than what the store has."""
    found: dict[str, Row] = {}
    for row in rows:
        before = found.get(row.key)
        place = known.get(row.key, NOWHERE) if before is None else before.place
        if row.place >= place or row.place == NOWHERE:
            found[row.key] = row
    return list(found.values())

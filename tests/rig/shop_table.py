"""The table of products, its capture, and what a topic of changes must be to tell of it."""

import json
from collections import Counter

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.spark.pipelines.cdc.capture import capture
from penstock.spark.pipelines.cdc.source import Source


def source_of(dsn: str, topic: str, positions: str, events: str) -> Source:
    """Slots of all databases of a server have different names."""
    name = f"shop_{conninfo_to_dict(dsn)['dbname']}"
    return Source(
        dsn=dsn,
        name=name,
        topics={"public.products": topic},
        positions=positions,
        events=events,
    )


def capture_all(dsn: str, topic: str, positions: str, events: str, bootstrap: str) -> int:
    return capture(source_of(dsn, topic, positions, events), bootstrap)


def products(dsn: str) -> dict[int, dict[str, object]]:
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        return {row["id"]: row for row in connection.execute("SELECT * FROM products")}


def told(records: list[ConsumedRecord]) -> dict[int, dict[str, object]]:
    """The rows that are left when every record is followed."""
    rows: dict[int, dict[str, object] | None] = {}
    for record in sorted(records, key=place_in_log):
        assert record.key is not None
        rows[int(record.key)] = None if record.value is None else json.loads(record.value)
    return {key: row for key, row in rows.items() if row is not None}


def latest(records: list[ConsumedRecord]) -> dict[str, object]:
    """What is left of a compacted topic when every record is followed."""
    found: dict[str, object] = {}
    for record in records:
        assert record.key is not None
        found[record.key.decode()] = None if record.value is None else json.loads(record.value)
    return {key: value for key, value in found.items() if value is not None}


def place_in_log(record: ConsumedRecord) -> tuple[int, int]:
    headers = dict(record.headers)
    return int(headers["cdc.position"] or b""), int(headers["cdc.step"] or b"")


def told_twice(records: list[ConsumedRecord]) -> list[tuple[int, int]]:
    """Changes that stand in the topic more than once."""
    counted = Counter(map(place_in_log, records))
    return [place for place, count in counted.items() if count > 1]

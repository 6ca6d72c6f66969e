"""Tables of any shape, several at once, and what happens to them as a whole, in topics."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import AbortOnly, Fenced
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.spark.connection import connect
from penstock.spark.options import ConnectionOptions
from penstock.spark.pipelines.cdc import capture as capture_module
from penstock.spark.pipelines.cdc import change_writer
from penstock.spark.pipelines.cdc.capture import (
    OlderDatabase,
    capture,
    keep_capturing,
    last_position,
)
from penstock.spark.pipelines.cdc.change_writer import KeyChanged, send_position
from penstock.spark.pipelines.cdc.database import WrongReplicaIdentity
from penstock.spark.pipelines.cdc.source import Source
from rig.cluster_questions import until
from rig.serve import ServedNode
from rig.shop_table import place_in_log
from rig.sink_output import committed_records, open_transactional_ids

TABLES = """
    CREATE SCHEMA sales;
    CREATE TABLE sales.orders (
        region text, number int, total numeric(10, 2), note text,
        doubled numeric GENERATED ALWAYS AS (total * 2) STORED, PRIMARY KEY (region, number)
    );
    CREATE TABLE people (id uuid PRIMARY KEY, "Full Name" text, tags jsonb, active bool);
    CREATE TABLE visits (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
    CREATE TABLE visits_2026 PARTITION OF visits FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
    INSERT INTO sales.orders VALUES ('north', 1, 9.90, 'first');
    INSERT INTO people VALUES ('00000000-0000-0000-0000-000000000001', 'Ada', '["x"]', true);
"""
Topic = Callable[..., str]
WAIT_SECONDS = 120


def source_of(dsn: str, topic: Topic, *tables: str) -> Source:
    compacted = {"cleanup.policy": "compact"}
    return Source(
        dsn=dsn,
        name=f"any_{conninfo_to_dict(dsn)['dbname']}",
        topics={table: topic(partitions=2, **compacted) for table in tables},
        positions=topic(**compacted),
        events=topic(),
    )


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def records(node: ServedNode, topic: str) -> list[ConsumedRecord]:
    return sorted(committed_records(node.bootstrap, topic), key=place_in_log)


def rows(node: ServedNode, topic: str) -> dict[str, object]:
    """What is left when every record is followed."""
    found: dict[str, object] = {}
    for record in records(node, topic):
        assert record.key is not None
        found[record.key.decode()] = None if record.value is None else json.loads(record.value)
    return {key: row for key, row in found.items() if row is not None}


def events(node: ServedNode, source: Source) -> list[dict[str, object]]:
    return [json.loads(record.value or b"") for record in records(node, source.events)]


def test_columns_and_keys_are_those_of_the_database(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders", "public.people", "public.visits")
    capture(source, node.bootstrap)
    execute(
        postgres,
        "UPDATE sales.orders SET total = 12.5",
        "INSERT INTO sales.orders VALUES ('south', 2, 1, NULL)",
        "UPDATE people SET active = false",
        "INSERT INTO visits VALUES (7, '2026-05-01')",
    )
    capture(source, node.bootstrap)
    assert rows(node, source.topics["sales.orders"]) == {
        '["north",1]': {"region": "north", "number": 1, "total": "12.50", "note": "first"},
        '["south",2]': {"region": "south", "number": 2, "total": "1.00", "note": None},
    }
    person = "00000000-0000-0000-0000-000000000001"
    assert rows(node, source.topics["public.people"]) == {
        person: {"id": person, "Full Name": "Ada", "tags": ["x"], "active": False}
    }
    assert rows(node, source.topics["public.visits"]) == {
        '[7,"2026-05-01"]': {"id": 7, "at": "2026-05-01"}
    }


def test_a_table_that_is_added_later_begins_with_its_rows(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES)
    both = source_of(postgres, topic, "sales.orders", "public.people")
    first = replace(both, topics={"sales.orders": both.topics["sales.orders"]})
    capture(first, node.bootstrap)
    execute(postgres, "UPDATE people SET active = NULL", "UPDATE sales.orders SET note = 'second'")
    capture(both, node.bootstrap)
    [person] = records(node, both.topics["public.people"])
    assert dict(person.headers)["cdc.kind"] == b"snapshot"
    assert json.loads(person.value or b"")["active"] is None
    assert len(records(node, both.topics["sales.orders"])) == 2
    # What changes while a table is not captured comes with its rows when it is captured again.
    capture(first, node.bootstrap)
    execute(postgres, "UPDATE people SET active = true")
    capture(first, node.bootstrap)
    capture(both, node.bootstrap)
    [row] = rows(node, both.topics["public.people"]).values()
    assert isinstance(row, dict) and row["active"] is True
    execute(postgres, "DELETE FROM people")
    capture(both, node.bootstrap)
    assert rows(node, both.topics["public.people"]) == {}


def test_an_older_capture_lets_go_of_nothing_that_a_newer_one_with_more_tables_needs(
    node: ServedNode, postgres: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_module, "PROOF_SECONDS", 0.5)
    monkeypatch.setattr(capture_module, "TROUBLE_PAUSE_SECONDS", 0.1)
    execute(postgres, TABLES)
    both = source_of(postgres, topic, "sales.orders", "public.people")
    first = replace(both, topics={"sales.orders": both.topics["sales.orders"]})
    capture(first, node.bootstrap)
    reads, ends = threading.Event(), threading.Event()

    def older_goes_on() -> bool:
        reads.set()
        return not ends.is_set()

    with ThreadPoolExecutor(2) as pool:
        older = pool.submit(capture, first, node.bootstrap, older_goes_on)
        assert reads.wait(WAIT_SECONDS)
        newer = pool.submit(
            keep_capturing, both, node.bootstrap, lambda: not ends.is_set() or older.running()
        )
        people = both.topics["public.people"]
        until("the rows are there", lambda: len(rows(node, people)) == 1)
        # The older one reads this from the slot, of which it is still the only reader.
        execute(postgres, "INSERT INTO people VALUES (gen_random_uuid(), 'Grace', '[]', true)")
        try:
            with pytest.raises((Fenced, AbortOnly), match="PRODUCER"):
                older.result(WAIT_SECONDS)
            until("the new row is there too", lambda: len(rows(node, people)) == 2)
        finally:
            ends.set()
        newer.result(WAIT_SECONDS)


def test_a_database_that_was_set_back_is_not_taken_for_captured(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders")
    capture(source, node.bootstrap)
    asyncio.run(write_position_ahead(source, node.bootstrap))
    with pytest.raises(OlderDatabase, match="FFFFFFFF/0: it was set back, as by a backup"):
        capture(source, node.bootstrap)


async def write_position_ahead(source: Source, bootstrap: str) -> None:
    """As if the log had been much longer when it was captured."""
    async with (
        connect(ConnectionOptions(bootstrap=bootstrap)) as cluster,
        TransactionalProducer(cluster, source.transactional_id) as producer,
    ):
        known = await last_position(cluster, source)
        assert known is not None
        async with producer.transaction():
            await send_position(producer, source, replace(known, lsn=0xFFFFFFFF << 32))


def test_rows_that_went_while_a_table_was_left_out_are_gone(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES, "INSERT INTO sales.orders VALUES ('north', 2, 1, 'second')")
    both = source_of(postgres, topic, "sales.orders", "public.people")
    capture(both, node.bootstrap)
    capture(replace(both, topics={"public.people": both.topics["public.people"]}), node.bootstrap)
    execute(postgres, "DELETE FROM sales.orders WHERE number = 1")
    capture(both, node.bootstrap)
    assert list(rows(node, both.topics["sales.orders"])) == ['["north",2]']
    kinds = [record.headers[0][1] for record in records(node, both.topics["sales.orders"])]
    assert kinds == [b"snapshot", b"snapshot", b"snapshot", b"delete"]


def test_a_table_that_took_the_name_of_another_begins_with_its_rows(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders", "public.people")
    capture(source, node.bootstrap)
    execute(
        postgres,
        "UPDATE people SET active = false",
        "DROP TABLE sales.orders",
        "CREATE TABLE sales.orders (number int PRIMARY KEY, total int)",
        "INSERT INTO sales.orders VALUES (7, 70)",
        "ALTER TABLE people RENAME TO people_before",
        "CREATE TABLE people (LIKE people_before INCLUDING ALL)",
        "INSERT INTO people VALUES ('00000000-0000-0000-0000-000000000002', 'Bob', 'null', true)",
        "UPDATE people_before SET active = NULL",
    )
    capture(source, node.bootstrap)
    execute(postgres, "UPDATE sales.orders SET total = 71", "UPDATE people_before SET tags = NULL")
    capture(source, node.bootstrap)
    assert rows(node, source.topics["sales.orders"]) == {"7": {"number": 7, "total": 71}}
    [person] = rows(node, source.topics["public.people"]).values()
    assert isinstance(person, dict) and person["Full Name"] == "Bob"


def test_truncation_leaves_no_row_and_an_event(
    node: ServedNode, postgres: str, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders", "public.people")
    capture(source, node.bootstrap)
    execute(
        postgres,
        "INSERT INTO sales.orders VALUES ('north', 2, 1, 'x'), ('north', 3, 1, 'x')",
        "DELETE FROM sales.orders WHERE number = 3",
        """BEGIN; INSERT INTO sales.orders VALUES ('north', 4, 1, 'x'); TRUNCATE sales.orders;
           INSERT INTO sales.orders VALUES ('north', 1, 7, 'new'); COMMIT""",
    )
    with caplog.at_level(logging.WARNING):
        capture(source, node.bootstrap)
    topic_of_orders = source.topics["sales.orders"]
    assert list(rows(node, topic_of_orders)) == ['["north",1]']
    kinds = [dict(record.headers)["cdc.kind"] for record in records(node, topic_of_orders)]
    assert kinds.count(b"truncate") == 3
    assert len(rows(node, source.topics["public.people"])) == 1
    assert events(node, source)[-1] == {"event": "truncate", "table": "sales.orders", "rows": 3}
    assert [line for line in caplog.messages if "table=sales.orders was truncated" in line]


def test_truncation_follows_a_commit_at_once(
    node: ServedNode, postgres: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_writer, "ROUND_CHANGES_MAX", 1)
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders")
    capture(source, node.bootstrap)
    read_keys = change_writer.live_keys
    is_open: list[bool] = []

    async def read_and_look(cluster: Cluster, name: str) -> set[bytes]:
        # The next transaction is open, so the one before is over for readers too.
        found = await asyncio.to_thread(open_transactional_ids, node.bootstrap)
        is_open.append(source.transactional_id in found)
        return await read_keys(cluster, name)

    monkeypatch.setattr(change_writer, "live_keys", read_and_look)
    insert = "INSERT INTO sales.orders SELECT 'east', n, n, 'x' FROM generate_series(1, 200) AS n"
    execute(postgres, *[insert, "TRUNCATE sales.orders"] * 5)
    capture(source, node.bootstrap)
    assert rows(node, source.topics["sales.orders"]) == {}
    truncated = [event["rows"] for event in events(node, source) if event["event"] == "truncate"]
    assert truncated == [201, 200, 200, 200, 200]
    assert is_open == [True] * 5


def test_other_columns_are_an_event_and_part_of_later_rows(
    node: ServedNode, postgres: str, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders")
    capture(source, node.bootstrap)
    [first] = events(node, source)
    assert first["key"] == ["region", "number"]
    assert [column["name"] for column in first["columns"]] == ["region", "number", "total", "note"]  # type: ignore[attr-defined] # JSON
    execute(
        postgres,
        "UPDATE sales.orders SET note = 'told with the old columns'",
        "ALTER TABLE sales.orders ADD COLUMN due date DEFAULT '2026-01-01'",
        "ALTER TABLE sales.orders DROP COLUMN note",
        "UPDATE sales.orders SET total = 1",
        "UPDATE sales.orders SET total = 2",
    )
    with caplog.at_level(logging.WARNING):
        capture(source, node.bootstrap)
        capture(source, node.bootstrap)
    _, altered = events(node, source)
    assert altered["columns"] == [
        {"name": "region", "type": "text"},
        {"name": "number", "type": "integer"},
        {"name": "total", "type": "numeric", "modifier": (10 << 16 | 2) + 4},
        {"name": "due", "type": "date"},
    ]
    assert rows(node, source.topics["sales.orders"]) == {
        '["north",1]': {"region": "north", "number": 1, "total": "2.00", "due": "2026-01-01"}
    }
    lines = [line for line in caplog.messages if "table=sales.orders has other columns" in line]
    assert len(lines) == 1


def test_another_primary_key_ends_the_capture(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES)
    source = source_of(postgres, topic, "sales.orders")
    capture(source, node.bootstrap)
    execute(
        postgres,
        "ALTER TABLE sales.orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (number)",
        "UPDATE sales.orders SET total = 1",
    )
    with pytest.raises(KeyChanged, match=r"was \(region, number\) and is now \(number\)"):
        capture(source, node.bootstrap)


def test_text_is_that_of_a_database_in_another_encoding(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    name = f"{conninfo_to_dict(postgres)['dbname']}_latin"
    execute(postgres, f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    dsn = make_conninfo(postgres, dbname=name)
    shop = make_conninfo(dsn, client_encoding="UTF8")  # as statements are sent here
    execute(shop, TABLES, "INSERT INTO sales.orders VALUES ('süd', 1, 1, 'Käse')")
    source = source_of(dsn, topic, "sales.orders")
    capture(source, node.bootstrap)
    execute(shop, "INSERT INTO sales.orders VALUES ('süd', 2, 1, 'Brötchen')")
    capture(source, node.bootstrap)
    found = rows(node, source.topics["sales.orders"])
    notes = [row["note"] for row in found.values() if isinstance(row, dict)]
    assert notes == ["first", "Käse", "Brötchen"]


def test_rows_that_the_log_does_not_name_by_their_key_are_refused(
    node: ServedNode, postgres: str, topic: Topic
) -> None:
    execute(postgres, TABLES, "ALTER TABLE people REPLICA IDENTITY NOTHING")
    source = source_of(postgres, topic, "public.people")
    with pytest.raises(WrongReplicaIdentity, match=r"ALTER TABLE public\.people REPLICA"):
        capture(source, node.bootstrap)

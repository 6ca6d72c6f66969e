"""Batches of Spark in a table of PostgreSQL: merged, repeated, late, and in competition."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.tables import postgres as postgres_tables
from penstock.spark.tables import postgres_table
from penstock.spark.tables.batches import Batch
from penstock.spark.tables.errors import (
    DatabaseUnreachable,
    OlderBatch,
    Superseded,
    UnknownTable,
    WrongColumns,
    WrongKeys,
)
from penstock.spark.tables.postgres_text import csv_chunks

FIRST, SECOND = "first-query", "second-query"
STOCK = "CREATE TABLE stock (sku text PRIMARY KEY, level int, note text DEFAULT 'none')"
TARGET = postgres_table.Target(table="stock", keys=("sku",), deleted=None)


@pytest.fixture
def dsn(postgres: str) -> str:
    run(postgres, STOCK)
    return postgres


def run(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def stored(dsn: str) -> list[tuple[object, ...]]:
    return run(dsn, "SELECT sku, level FROM stock ORDER BY sku")


def levels(spark: SparkSession, *rows: tuple[str, int]) -> DataFrame:
    return spark.createDataFrame(list(rows), "sku string, level int")


def upsert(frame: DataFrame, batch_id: int, dsn: str, *, query: str = FIRST) -> bool:
    return postgres_tables.upsert(
        frame, batch_id, dsn=dsn, table="stock", keys=["sku"], app="stock", query=query
    )


def test_a_repeated_batch_is_skipped_and_keeps_what_others_changed(
    spark: SparkSession, dsn: str
) -> None:
    assert upsert(levels(spark, ("a", 1), ("b", 2)), 0, dsn)
    run(dsn, "UPDATE stock SET level = 9, note = 'by hand' WHERE sku = 'a'")
    assert not upsert(levels(spark, ("a", 1), ("b", 2)), 0, dsn)
    assert stored(dsn) == [("a", 9), ("b", 2)]
    assert upsert(levels(spark, ("a", 3), ("c", 4)), 1, dsn)
    assert run(dsn, "SELECT * FROM stock ORDER BY sku") == [
        ("a", 3, "by hand"),
        ("b", 2, "none"),
        ("c", 4, "none"),
    ]


def test_two_tables_of_one_app_each_get_the_batch(spark: SparkSession, dsn: str) -> None:
    run(dsn, "CREATE TABLE shelf (sku text PRIMARY KEY, level int)")
    rows = levels(spark, ("a", 1))
    for table in ("stock", "shelf"):
        assert postgres_tables.upsert(
            rows, 0, dsn=dsn, table=table, keys=["sku"], app="both", query=FIRST
        )
    assert run(dsn, "SELECT sku FROM stock UNION ALL SELECT sku FROM shelf") == [("a",), ("a",)]


def test_an_older_batch_and_a_former_query_are_refused(spark: SparkSession, dsn: str) -> None:
    upsert(levels(spark, ("a", 1)), 7, dsn)
    with pytest.raises(OlderBatch, match=r"batch 6 of 'stock' is older than batch 7"):
        upsert(levels(spark, ("a", 2)), 6, dsn)
    upsert(levels(spark, ("b", 3)), 0, dsn, query=SECOND)
    with pytest.raises(Superseded, match="another query now writes as 'stock'"):
        upsert(levels(spark, ("a", 4)), 8, dsn)
    assert stored(dsn) == [("a", 1), ("b", 3)]


def test_a_driver_left_behind_waits_and_then_writes_nothing(dsn: str) -> None:
    """It has passed the first look, and finds out under the lock."""
    newer, older = (Batch(app="stock", query=FIRST, batch_id=number) for number in (4, 3))
    outcome: list[BaseException | bool] = []

    def left_behind() -> None:
        try:
            with postgres_table.connect(dsn) as connection:
                rows = pyarrow.table({"sku": ["a"], "level": [3]})
                outcome.append(postgres_table.merge_rows(connection, TARGET, older, rows))
        except OlderBatch as error:
            outcome.append(error)

    with postgres_table.connect(dsn) as connection:
        assert not postgres_table.is_written(connection, TARGET, newer)
        with connection.transaction():
            rows = pyarrow.table({"sku": ["a"], "level": [4]})
            assert postgres_table.merge_rows(connection, TARGET, newer, rows)
            thread = threading.Thread(target=left_behind)
            thread.start()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while run(dsn, waiting) != [(1,)]:
                pass
            assert not outcome
        thread.join(120)
    assert [type(one) for one in outcome] == [OlderBatch]
    assert stored(dsn) == [("a", 4)]


def test_a_driver_that_stands_still_while_it_copies_keeps_nobody_waiting(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(app="stock", query=FIRST, batch_id=0)
    rows = pyarrow.table({"sku": ["a"], "level": [1]})
    stands, goes_on = threading.Event(), threading.Event()

    def slow_for_the_first(table: pyarrow.Table) -> Iterator[bytes]:
        if threading.current_thread() is not threading.main_thread():
            stands.set()
            assert goes_on.wait(120)
        yield from csv_chunks(table)

    def merge() -> bool:
        with postgres_table.connect(dsn) as connection:
            return postgres_table.merge_rows(connection, TARGET, batch, rows)

    monkeypatch.setattr(postgres_table, "csv_chunks", slow_for_the_first)
    monkeypatch.setattr(postgres_table, "LOCK_SECONDS_MAX", 5)
    with postgres_table.connect(dsn) as connection:
        assert not postgres_table.is_written(connection, TARGET, batch)
    with ThreadPoolExecutor(1) as pool:
        still = pool.submit(merge)
        assert stands.wait(120)
        try:
            assert merge()
        finally:
            goes_on.set()
        assert not still.result(120)
    assert stored(dsn) == [("a", 1)]


def test_deleted_rows_go(spark: SparkSession, dsn: str) -> None:
    for batch_id, rows in enumerate(
        [[("a", 1, False), ("b", 2, False)], [("a", 1, True), ("b", 3, None), ("c", 4, True)]]
    ):
        frame = spark.createDataFrame(rows, "sku string, level int, gone boolean")
        postgres_tables.upsert(
            frame,
            batch_id,
            dsn=dsn,
            table="public.stock",
            keys=["sku"],
            app="s",
            query=FIRST,
            deleted="gone",
        )
    assert stored(dsn) == [("b", 3)]


def test_types_come_through_whole(spark: SparkSession, postgres: str) -> None:
    run(
        postgres,
        "CREATE TABLE kinds (id bigint PRIMARY KEY, at timestamptz, day date, price numeric, "
        'raw bytea, tags jsonb, buyer jsonb, "odd ""name" text, share float8, live boolean)',
    )
    schema = (
        "id long, at timestamp, day date, price decimal(10,2), raw binary, tags array<string>, "
        'buyer struct<name:string>, `odd "name` string, share double, live boolean'
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    row = (at, at.date(), Decimal("12.34"), b"\0\xff", ["a", 'b"'], {"name": "Zoë"}, 'a,"\n\\N')
    frame = spark.createDataFrame([(1, *row, 0.1, True), (2, *[None] * 6, "", None, None)], schema)
    postgres_tables.upsert(
        frame, 0, dsn=postgres, table="kinds", keys=["id"], app="kinds", query=FIRST
    )
    assert run(postgres, "SELECT * FROM kinds ORDER BY id") == [
        (1, *row, 0.1, True),
        (2, *[None] * 6, "", None, None),
    ]


def test_what_does_not_fit_is_refused_in_one_line(spark: SparkSession, dsn: str) -> None:
    def refused(frame: DataFrame, *, table: str = "stock", key: str = "sku") -> None:
        postgres_tables.upsert(frame, 0, dsn=dsn, table=table, keys=[key], app="stock", query=FIRST)

    with pytest.raises(WrongColumns, match='column "price" does not exist'):
        refused(spark.createDataFrame([("a", 1)], "sku string, price int"))
    with pytest.raises(WrongColumns, match=r'type integer: "many" \(COPY .*, line 1, column level'):
        refused(spark.createDataFrame([("a", "many")], "sku string, level string"))
    with pytest.raises(UnknownTable, match="there is no table shelf"):
        refused(levels(spark, ("a", 1)), table="shelf")
    with pytest.raises(WrongKeys, match="stock has no primary key or unique constraint on level"):
        refused(levels(spark, ("a", 1)), key="level")
    with pytest.raises(WrongKeys, match="'sku' is null in 1 rows"):
        refused(spark.createDataFrame([(None, 1)], "sku string, level int"))
    with pytest.raises(WrongKeys, match="1 key occurs more than once"):
        refused(levels(spark, ("a", 1), ("a", 2)))
    assert stored(dsn) == []
    assert run(dsn, "SELECT * FROM penstock_batches") == []


def test_a_database_out_of_reach_is_told_without_the_password(spark: SparkSession) -> None:
    dsn = "postgresql://me:secret@127.0.0.1:1/shop"
    with pytest.raises(DatabaseUnreachable, match=r"at 127.0.0.1:1, database shop: ") as caught:
        upsert(levels(spark, ("a", 1)), 0, dsn)
    assert "secret" not in str(caught.value)


def test_a_killed_connection_leaves_nothing_of_its_batch(dsn: str) -> None:
    batch = Batch(app="stock", query=FIRST, batch_id=0)
    run(
        dsn,
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$; "
        "CREATE TRIGGER dying AFTER INSERT ON stock FOR EACH ROW EXECUTE FUNCTION die()",
    )
    rows = pyarrow.table({"sku": ["a"], "level": [1]})
    with (
        pytest.raises(DatabaseUnreachable, match="stock: the connection to the database was lost"),
        postgres_table.connect(dsn) as connection,
    ):
        postgres_table.is_written(connection, TARGET, batch)
        postgres_table.merge_rows(connection, TARGET, batch, rows)
    run(dsn, "DROP TRIGGER dying ON stock")
    assert stored(dsn) == []
    with postgres_table.connect(dsn) as connection:
        assert postgres_table.merge_rows(connection, TARGET, batch, rows)
    assert stored(dsn) == [("a", 1)]


def test_json_is_json(spark: SparkSession, postgres: str) -> None:
    run(postgres, "CREATE TABLE docs (id int PRIMARY KEY, doc jsonb)")
    frame = spark.sql("SELECT 1 AS id, map('k', array(1, 2)) AS doc")
    postgres_tables.upsert(
        frame, 0, dsn=postgres, table="docs", keys=["id"], app="docs", query=FIRST
    )
    assert run(postgres, "SELECT doc FROM docs") == [(json.loads('{"k": [1, 2]}'),)]

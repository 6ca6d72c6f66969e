"""Batches of Spark in a Delta table: appended or merged, repeated, late, and in competition."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.tables import delta, delta_table
from penstock.spark.tables.batches import Batch
from penstock.spark.tables.delta_files import DataFile
from penstock.spark.tables.errors import (
    Contended,
    OlderBatch,
    OtherApp,
    Superseded,
    TableError,
    WrongColumns,
    WrongKeys,
)

FIRST, SECOND = "first-query", "second-query"


@pytest.fixture
def table(folder: Path) -> str:
    return str(folder / "orders")


def orders(spark: SparkSession, *rows: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id int, state string")


def stored(table: str) -> list[tuple[object, ...]]:
    found = DeltaTable(table).to_pyarrow_table().to_pydict()
    return sorted(zip(*found.values(), strict=True))


def test_a_repeated_batch_is_skipped(spark: SparkSession, table: str) -> None:
    rows = orders(spark, (1, "made"), (2, "made"))
    assert delta.write(rows, 0, table=table, app="orders", query=FIRST)
    assert not delta.write(rows, 0, table=table, app="orders", query=FIRST)
    assert delta.write(orders(spark, (3, "made")), 1, table=table, app="orders", query=FIRST)
    assert not delta.write(orders(spark, (3, "made")), 1, table=table, app="orders", query=FIRST)
    assert stored(table) == [(1, "made"), (2, "made"), (3, "made")]


def test_an_older_batch_is_refused(spark: SparkSession, table: str) -> None:
    delta.write(orders(spark, (1, "made")), 7, table=table, app="orders", query=FIRST)
    with pytest.raises(OlderBatch, match=r"batch 6 of 'orders' is older than batch 7"):
        delta.write(orders(spark, (2, "made")), 6, table=table, app="orders", query=FIRST)
    assert stored(table) == [(1, "made")]


def test_a_new_query_begins_anew_and_ends_the_former_one(spark: SparkSession, table: str) -> None:
    delta.write(orders(spark, (1, "made")), 5, table=table, app="orders", query=FIRST)
    delta.write(orders(spark, (2, "made")), 0, table=table, app="orders", query=SECOND)
    with pytest.raises(Superseded, match="another query now writes as 'orders'"):
        delta.write(orders(spark, (3, "made")), 6, table=table, app="orders", query=FIRST)
    assert not delta.write(orders(spark, (2, "made")), 0, table=table, app="orders", query=SECOND)
    assert stored(table) == [(1, "made"), (2, "made")]


def test_an_upsert_keeps_one_row_a_key_and_takes_the_deleted(
    spark: SparkSession, table: str
) -> None:
    def upsert(batch_id: int, *rows: tuple[int, str | None, bool]) -> None:
        frame = spark.createDataFrame(list(rows), "id int, state string, gone boolean")
        delta.write(
            frame,
            batch_id,
            table=table,
            app="o",
            query=FIRST,
            mode="upsert",
            keys=["id"],
            deleted="gone",
        )

    upsert(0, (1, "made", False), (2, "made", False), (3, "never", True))
    upsert(1, (1, None, True), (2, "paid", False), (4, "made", False))
    assert stored(table) == [(2, "paid"), (4, "made")]


def test_types_come_through_whole(spark: SparkSession, table: str) -> None:
    schema = (
        "id long, at timestamp, day date, price decimal(10,2), raw binary, tags array<string>, "
        "buyer struct<name:string,age:int>"
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    row = (1, at, at.date(), Decimal("12.34"), b"\0\xff", ["a", None], {"name": "Ann", "age": 7})
    for mode, batch_id in (("append", 0), ("upsert", 1)):
        frame = spark.createDataFrame([(batch_id, *row[1:])], schema)
        keys = ["id"] if mode == "upsert" else []
        delta.write(
            frame,
            batch_id,
            table=table,
            app="t",
            mode=mode,  # type: ignore[arg-type] # both are modes
            keys=keys,
            query=FIRST,
        )
    assert stored(table) == [(0, *row[1:]), (1, *row[1:])]


def test_a_partitioned_table_is_appended_to(spark: SparkSession, table: str) -> None:
    rows = orders(spark, (1, "made"), (2, "paid"))
    for _ in range(2):
        delta.write(rows, 0, table=table, app="orders", query=FIRST, partition_by=["state"])
    assert DeltaTable(table).metadata().partition_columns == ["state"]
    assert sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_whoever_loses_the_race_finds_the_batch_written(spark: SparkSession, table: str) -> None:
    delta.write(orders(spark, (1, "made")), 0, table=table, app="orders", query=FIRST)
    target = delta_table.Target(uri=table)
    batch = Batch(app="orders", query=FIRST, batch_id=1)
    rows = pyarrow.table({"id": pyarrow.array([2], pyarrow.int32()), "state": ["made"]})
    adding = delta_table.adding_rows(rows)

    def overtaken(found: DeltaTable, numbers: CommitProperties) -> None:
        delta_table.commit(target, batch, adding)
        adding(found, numbers)

    assert not delta_table.commit(target, batch, overtaken)
    assert stored(table) == [(1, "made"), (2, "made")]


def test_a_merge_is_done_again_on_what_others_wrote(spark: SparkSession, table: str) -> None:
    DeltaTable.create(table, delta_table.schema_of(orders(spark).schema.jsonValue()))
    target = delta_table.Target(uri=table)
    rows = pyarrow.table({"id": pyarrow.array([2], pyarrow.int32()), "state": ["paid"]})
    merging = delta_table.merging_rows(rows, keys=["id"], deleted=None)
    others = iter(range(1))

    def overtaken(found: DeltaTable, numbers: CommitProperties) -> None:
        for _ in others:
            delta.write(
                orders(spark, (1, "made"), (2, "made")), 0, table=table, app="other", query=FIRST
            )
        merging(found, numbers)

    assert delta_table.commit(target, Batch(app="mine", query=FIRST, batch_id=0), overtaken)
    assert stored(table) == [(1, "made"), (2, "paid")]


def test_endless_competition_ends_in_a_clear_error(spark: SparkSession, table: str) -> None:
    DeltaTable.create(table, delta_table.schema_of(orders(spark).schema.jsonValue()))
    target = delta_table.Target(uri=table)
    rows = pyarrow.table({"id": pyarrow.array([2], pyarrow.int32()), "state": ["paid"]})
    merging = delta_table.merging_rows(rows, keys=["id"], deleted=None)

    def overtaken(found: DeltaTable, numbers: CommitProperties) -> None:
        delta_table.adding_rows(rows)(DeltaTable(table), CommitProperties())
        merging(found, numbers)

    with pytest.raises(Contended, match="nothing of it is written"):
        delta_table.commit(target, Batch(app="mine", query=FIRST, batch_id=0), overtaken)


def test_what_does_not_fit_is_refused_in_one_line(spark: SparkSession, table: str) -> None:
    delta.write(orders(spark, (1, "made")), 0, table=table, app="orders", query=FIRST)
    more = spark.createDataFrame([(1, "a", 2)], "id int, state string, price int")
    with pytest.raises(WrongColumns, match=r"has no column 'price'$"):
        delta.write(more, 1, table=table, app="orders", query=FIRST)
    other = spark.createDataFrame([("x", "a")], "id string, state string")
    with pytest.raises(WrongColumns, match="column 'id' is integer there and string in the batch"):
        delta.write(other, 1, table=table, app="orders", query=FIRST)
    with pytest.raises(OtherApp, match="belongs to app 'orders'"):
        delta.write(orders(spark, (2, "made")), 1, table=table, app="stock", query=FIRST)
    with pytest.raises(WrongKeys, match=r"1 key occurs more than once.*\{'id': 5\}"):
        twice = orders(spark, (5, "made"), (5, "paid"), (6, "made"))
        delta.write(twice, 1, table=table, app="orders", query=FIRST, mode="upsert", keys=["id"])
    with pytest.raises(WrongColumns, match="no column 'sku'; it has 'id', 'state'"):
        rows = orders(spark, (5, "made"))
        delta.write(rows, 1, table=table, app="orders", query=FIRST, mode="upsert", keys=["sku"])
    assert stored(table) == [(1, "made")]


def test_a_table_for_appending_only_keeps_its_rows(spark: SparkSession, table: str) -> None:
    delta.write(
        orders(spark, (1, "made")), 0, table=table, app="orders", query=FIRST, append_only=True
    )
    with pytest.raises(TableError, match="is append-only"):
        rows = orders(spark, (1, "paid"))
        delta.write(rows, 1, table=table, app="orders", query=FIRST, mode="upsert", keys=["id"])
    assert delta.write(orders(spark, (2, "made")), 1, table=table, app="orders", query=FIRST)
    assert stored(table) == [(1, "made"), (2, "made")]


def test_a_table_that_cannot_be_made_is_an_error_with_its_name(
    spark: SparkSession, folder: Path
) -> None:
    (folder / "file").write_text("not a folder")
    with pytest.raises(TableError, match="file/orders"):
        delta.write(
            orders(spark, (1, "made")),
            0,
            table=str(folder / "file/orders"),
            app="orders",
            query=FIRST,
        )


def test_files_that_only_the_workers_see_are_not_committed(folder: Path) -> None:
    file = DataFile(path="part-1.parquet", size_bytes=4, row_count=1)
    with pytest.raises(TableError, match="the driver and all workers share"):
        delta.check_shared(folder, [file])
    (folder / "part-1.parquet").write_bytes(b"rows")
    delta.check_shared(folder, [file])

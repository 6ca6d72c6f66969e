"""What is asked of a history of changes as of an offset is read by tasks, and nothing else is."""

import json
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.spark.pipelines.cdc import job, steps
from penstock.spark.pipelines.cdc.feature_table import features_as_of, rows_as_of
from penstock.spark.tables import delta
from penstock.spark.tables.errors import UnknownTable

RECORDS = (
    "key binary, value binary, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>, partition int, offset bigint"
)
AT = datetime(2026, 1, 1, tzinfo=UTC)
PRODUCTS = 6
PARTITIONS = 2
BATCHES = 4  # in each, every product has one change


def record(batch: int, number: int) -> tuple[object, ...]:
    """Changes of a product lie in one partition, three of each batch in each."""
    row = {"id": number, "name": f"lamp {batch}", "description": "quiet", "category": "lights"}
    row |= {"price_cents": 100 * batch + number, "stock": batch % 2}
    position = batch * PRODUCTS + number
    headers = {"cdc.kind": "update", "cdc.position": str(position), "cdc.step": "0"}
    return (
        str(number).encode(),
        json.dumps(row).encode(),
        AT,
        [(name, value.encode()) for name, value in headers.items()],
        number % PARTITIONS,
        batch * PRODUCTS // PARTITIONS + number // PARTITIONS,
    )


def changes(spark: SparkSession, batch: int, *, tasks: int) -> DataFrame:
    records = [record(batch, number) for number in range(PRODUCTS)]
    frame = spark.createDataFrame(records, RECORDS).repartitionByRange(tasks, "partition")
    return steps.changes(frame)


@pytest.fixture
def table(folder: Path) -> str:
    return str(folder / job.HISTORY)


def write(spark: SparkSession, table: str, *batches: int, tasks: int = PARTITIONS) -> None:
    """As the pipeline does: each task writes one file, of one partition or of several."""
    for batch in batches:
        history = steps.history(changes(spark, batch, tasks=tasks))
        written = delta.write(
            history, batch, table=table, app=job.HISTORY, append_only=True, query="q"
        )
        assert written


def after(batches: int) -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), batches * PRODUCTS // PARTITIONS)


def by_id(found: DataFrame) -> dict[int, Row]:
    return {row["id"]: row for row in found.collect()}


def destroy(file: Path, *columns: str) -> None:
    """The values of some columns of a Parquet file, or of all; its footer stays."""
    metadata = pyarrow.parquet.ParquetFile(file).metadata
    content = bytearray(file.read_bytes())
    for group, index in product(range(metadata.num_row_groups), range(metadata.num_columns)):
        chunk = metadata.row_group(group).column(index)
        if not columns or chunk.path_in_schema in columns:
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            size_bytes = chunk.total_compressed_size
            content[begin : begin + size_bytes] = bytes(size_bytes)
    file.write_bytes(content)


def files_of(table: str) -> list[Path]:
    return [Path(table) / path for path in DeltaTable(table).to_pyarrow_dataset().files]


def test_features_are_those_of_the_changes_in_front(spark: SparkSession, table: str) -> None:
    write(spark, table, *range(BATCHES))
    found = by_id(features_as_of(spark, table, after(2)))
    assert {key: (row.change_count, row.price_cents_last) for key, row in found.items()} == {
        number: (2, 100 + number) for number in range(PRODUCTS)
    }
    one_batch_of_the_first = by_id(features_as_of(spark, table, {0: PRODUCTS // PARTITIONS}))
    assert {key: row.change_count for key, row in one_batch_of_the_first.items()} == {
        number: BATCHES if number % PARTITIONS else 1 for number in range(PRODUCTS)
    }
    rows = by_id(rows_as_of(spark, table, after(3)))
    assert {row.name for row in rows.values()} == {"lamp 2"}
    assert by_id(features_as_of(spark, table, after(0))) == {}


@pytest.mark.parametrize("tasks", [1, PARTITIONS])
def test_what_lies_behind_the_offsets_and_other_columns_are_not_read(
    spark: SparkSession, table: str, tasks: int
) -> None:
    write(spark, table, 0, 1, tasks=tasks)
    before = files_of(table)
    write(spark, table, 2, 3, tasks=tasks)
    for file in {*files_of(table)} - {*before}:
        destroy(file)
    for file in before:
        destroy(file, "name", "description", "category")
    found = by_id(features_as_of(spark, table, after(2)))
    assert {row.change_count for row in found.values()} == {2}
    for one_that_is_read in (features_as_of(spark, table, after(3)), rows_as_of(spark, table, {})):
        with pytest.raises(PythonException):
            one_that_is_read.collect()


def test_changes_of_before_histories_had_offsets_are_in_front_of_all(
    spark: SparkSession, table: str
) -> None:
    old = steps.history(changes(spark, 0, tasks=1)).drop(*steps.PLACE)
    delta.write(old, 0, table=table, app=job.HISTORY, append_only=True, query="q")
    job.add_offsets(table)
    write(spark, table, 1, 2)
    found = by_id(features_as_of(spark, table, after(2)))
    assert {row.change_count for row in found.values()} == {2}
    assert {row.change_count for row in by_id(features_as_of(spark, table, {})).values()} == {3}


def test_a_history_without_a_change_has_no_features(spark: SparkSession, table: str) -> None:
    nothing = steps.history(changes(spark, 0, tasks=1)).where("false")
    delta.write(nothing, 0, table=table, app=job.HISTORY, append_only=True, query="q")
    assert by_id(features_as_of(spark, table, after(1))) == {}


def test_a_history_that_is_not_there_is_named(spark: SparkSession, table: str) -> None:
    with pytest.raises(UnknownTable, match=r"there is no Delta table at .*cdc\.history$"):
        features_as_of(spark, table, {})

"""Tasks read the rows of a Delta table, without a jar: none of them passes through the driver.

What is read of a file is the columns that are asked for, in the row groups whose statistics, in the
file itself, do not rule the condition out. Those of the Delta log are not asked: what `deltalake`
makes of them skips every file that was written before a column was added, though its rows have
nulls there for which the condition may hold.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow
import pyarrow.dataset
from pyarrow.compute import Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.spark.tables.delta_files import file_system
from penstock.spark.tables.delta_table import Target, arrow_schema
from penstock.spark.tables.errors import TableError, UnknownTable

TASKS_MAX = 200
PATH = "path"


def rows_of(
    spark: SparkSession, target: Target, *, columns: Sequence[str], condition: Expression
) -> DataFrame:
    """The rows for which the condition holds, as the table is now. A file that was written before
    the table had one of the columns has nulls there.
    """
    table = target.opened()
    if table is None:
        raise UnknownTable(f"there is no Delta table at {target.uri}")
    if table.metadata().partition_columns:
        raise TableError(f"{target.uri} has partitions, whose values are not in its files")
    schema = table.schema()
    stored = arrow_schema(schema, [field.name for field in schema.fields])
    types = StructType.fromJson(json.loads(schema.to_json()))
    paths = [(path,) for path in table.to_pyarrow_dataset().files]
    if target.folder is not None:  # tasks may run in a working directory of their own
        target = replace(target, uri=str(target.folder))
    reading = partial(_read_task, target, stored, list(columns), condition)
    task_count = max(1, min(len(paths), TASKS_MAX))
    files = spark.createDataFrame(paths, f"{PATH} string").repartition(task_count)
    return files.mapInArrow(reading, StructType([types[name] for name in columns]))


def read_files(
    target: Target,
    schema: pyarrow.Schema,
    columns: list[str],
    condition: Expression,
    paths: Sequence[str],
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of some files, batch by batch: one row group of each column is in memory."""
    files = pyarrow.dataset.dataset(
        list(paths), schema=schema, format="parquet", filesystem=file_system(target)
    )
    yield from files.to_batches(
        columns=columns,
        filter=condition,
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )


def _read_task(
    target: Target,
    schema: pyarrow.Schema,
    columns: list[str],
    condition: Expression,
    batches: Iterable[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        paths = batch.column(PATH).to_pylist()
        yield from read_files(target, schema, columns, condition, paths)

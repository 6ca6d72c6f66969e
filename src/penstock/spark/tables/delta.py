"""Writes batches to a Delta table, each once, without a jar: for foreachBatch.

    def into(frame: DataFrame, batch_id: int) -> None:
        delta.write(frame, batch_id, table="/lake/orders", app="orders")

    orders.writeStream.foreachBatch(into).option("checkpointLocation", ...).start()

The batch's number is part of the same Delta commit as its rows (Delta's application transactions),
so a repeated batch finds itself in the table and is skipped (see `batches` for the whole rule).
Two drivers under one app can't both commit a batch: the second finds it there.

`append` to a table without partitions: the tasks write the files, into a folder or an object store,
and the driver only commits. `append` to partitions, and `upsert` always: the batch comes to the
driver as Arrow, and must fit into its memory (twice, for an upsert); `maxOffsetsPerTrigger` is what
bounds it. An upsert rewrites every file that holds one of its keys, as merges into Delta do.

The table is made with the batch's columns when there is none yet, and then belongs to `app`. A
table made by somebody else may be written by any app that its columns fit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow
from pyspark.sql import DataFrame

from penstock.spark.tables.batches import Batch
from penstock.spark.tables.delta_files import DataFile, write_files
from penstock.spark.tables.delta_table import (
    Target,
    adding_files,
    adding_rows,
    arrow_schema,
    commit,
    is_written,
    merging_rows,
    open_or_make,
    schema_of,
)
from penstock.spark.tables.errors import TableError
from penstock.spark.tables.incoming import check_keys, check_named, query_of, run_through
from penstock.spark.tables.store_options import store_options

Mode = Literal["append", "upsert"]


def write(
    frame: DataFrame,
    batch_id: int,
    *,
    table: str,
    app: str,
    mode: Mode = "append",
    keys: Sequence[str] = (),
    deleted: str | None = None,
    partition_by: Sequence[str] = (),
    append_only: bool = False,
    storage_options: dict[str, str] | None = None,
    config_file: str | None = None,
    query: str | None = None,
) -> bool:
    """Writes the batch; returns False where it was in the table already.

    `upsert` needs `keys`; rows whose boolean column `deleted` is true take the row of their key
    away, and the column itself is not stored. `partition_by` and `append_only`, after which no
    writer of Delta changes or deletes a row any more, are for a table that is made here.
    `storage_options` and the properties of `config_file` say how an object store is reached.
    `query` is Spark's query id, and found by itself within foreachBatch; "" of a program that has
    no query.
    """
    if mode == "upsert":
        check_named(frame, keys=keys, deleted=deleted)
    elif keys or deleted is not None:
        raise TableError('keys and deleted are for mode="upsert"')
    options = store_options(table, storage_options, config_file=config_file)
    target = Target(uri=table, storage_options=options or None)
    query = query_of(frame) if query is None else query
    batch = Batch(app=app, query=query, batch_id=batch_id)
    schema = schema_of(frame.schema.jsonValue(), without=deleted)
    found = open_or_make(
        target, schema, app=app, partition_by=partition_by, append_only=append_only
    )
    if is_written(found, batch):
        run_through(frame)
        return False
    stored = arrow_schema(found.schema(), [column.name for column in schema.fields])
    if mode == "append" and not found.metadata().partition_columns:
        return _append_by_tasks(frame, batch, target=target, stored=stored)
    rows = frame.toArrow()
    if not rows.num_rows:
        return True
    if mode == "append":
        return commit(target, batch, adding_rows(rows.cast(stored)))
    check_keys(rows, keys)
    flags = [] if deleted is None else [rows.schema.field(deleted)]
    rows = rows.select([*stored.names, *(flag.name for flag in flags)])
    rows = rows.cast(pyarrow.schema([*stored, *flags]))
    return commit(target, batch, merging_rows(rows, keys=keys, deleted=deleted))


def _append_by_tasks(
    frame: DataFrame, batch: Batch, *, target: Target, stored: pyarrow.Schema
) -> bool:
    files = write_files(frame, target, stored)
    if not files:
        return True
    if target.folder is not None:
        check_shared(target.folder, files)
    # After an error nobody knows whether the commit named the files: they stay where they are.
    return commit(target, batch, adding_files([file.addition() for file in files]))


def check_shared(folder: Path, files: list[DataFile]) -> None:
    """A commit that named files which only the workers see would break the table for good."""
    for file in files:
        path = folder / file.path
        if not path.exists() or path.stat().st_size != file.size_bytes:
            raise TableError(
                f"{path} was written by a task and is not here: the table needs a folder that the "
                "driver and all workers share"
            )

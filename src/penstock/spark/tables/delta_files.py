"""Tasks write their rows into the place of a Delta table; a commit then names the files.

A file that no commit names is not part of the table. A killed or repeated task leaves such a file
behind, or in an object store an upload that was never ended; no reader comes to either. Delta's
vacuum takes the files away, the store itself the uploads.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow
import pyarrow.fs
import pyarrow.parquet
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from penstock.spark.tables.delta_table import Target

WRITTEN = "path string, size_bytes long, row_count long"
WRITTEN_ARROW = pyarrow.schema(
    [("path", pyarrow.string()), ("size_bytes", pyarrow.int64()), ("row_count", pyarrow.int64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    path: str  # within the table
    size_bytes: int
    row_count: int

    def addition(self) -> AddAction:
        return AddAction(
            path=self.path,
            size=self.size_bytes,
            partition_values={},
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": self.row_count}),
        )


def write_files(frame: DataFrame, target: Target, schema: pyarrow.Schema) -> list[DataFile]:
    """Runs the frame; every task that has rows writes one file, in the columns of `schema`."""
    writing = partial(_write_task, target, schema)
    return [DataFile(**row.asDict()) for row in frame.mapInArrow(writing, WRITTEN).collect()]


def write_file(
    target: Target, schema: pyarrow.Schema, batches: Iterator[pyarrow.RecordBatch]
) -> DataFile | None:
    """The rows as one file, which is whole when this returns; None if there are none."""
    files = file_system(target)
    name = f"part-{uuid.uuid4()}.parquet"
    row_count = 0
    writer: pyarrow.parquet.ParquetWriter | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(
                    name, schema, compression="zstd", filesystem=files
                )
            writer.write_table(
                pyarrow.Table.from_batches([batch]).select(schema.names).cast(schema)
            )
            row_count += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    if not row_count:
        return None
    # A store is asked: what it does not know of is not committed.
    return DataFile(path=name, size_bytes=files.get_file_info(name).size, row_count=row_count)


def file_system(target: Target) -> pyarrow.fs.FileSystem:
    """The table's files, by their paths within it."""
    if target.folder is not None:
        return pyarrow.fs.SubTreeFileSystem(str(target.folder), pyarrow.fs.LocalFileSystem())
    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(target.uri, target.storage_options))


def _write_task(
    target: Target, schema: pyarrow.Schema, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    file = write_file(target, schema, batches)
    if file is not None:
        row = {"path": file.path, "size_bytes": file.size_bytes, "row_count": file.row_count}
        yield pyarrow.RecordBatch.from_pylist([row], schema=WRITTEN_ARROW)

"""Tasks write their rows into the folder of a Delta table; a commit then names the files.

A file that no commit names is not part of the table. A killed or repeated task leaves such a file
behind; Delta's vacuum takes it away.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow
import pyarrow.parquet
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

WRITTEN = "path string, size_bytes long, row_count long"
WRITTEN_ARROW = pyarrow.schema(
    [("path", pyarrow.string()), ("size_bytes", pyarrow.int64()), ("row_count", pyarrow.int64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    path: str  # within the table's folder
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


def write_files(frame: DataFrame, folder: Path, schema: pyarrow.Schema) -> list[DataFile]:
    """Runs the frame; every task that has rows writes one file, in the columns of `schema`."""
    writing = partial(_write_one, str(folder), schema)
    return [DataFile(**row.asDict()) for row in frame.mapInArrow(writing, WRITTEN).collect()]


def _write_one(
    folder: str, schema: pyarrow.Schema, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    name = f"part-{uuid.uuid4()}.parquet"
    path = Path(folder) / name
    row_count = 0
    writer: pyarrow.parquet.ParquetWriter | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, schema, compression="zstd")
            writer.write_table(
                pyarrow.Table.from_batches([batch]).select(schema.names).cast(schema)
            )
            row_count += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    if row_count:
        row = {"path": name, "size_bytes": path.stat().st_size, "row_count": row_count}
        yield pyarrow.RecordBatch.from_pylist([row], schema=WRITTEN_ARROW)

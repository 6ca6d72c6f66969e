"""The least that a Python source and a Python sink can cost on Spark.

`floor` yields Arrow batches that are ready, with the columns of our source, and as a sink it
discards what it is given. What our source and sink cost above that is ours. Python workers import
this file.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.spark.source.columns import COLUMNS
from penstock.spark.source.read import CHUNK_BYTES

OTHER_COLUMN_BYTES = 48  # of a row, beside its value


class Floor(DataSource):
    """Options of the source: rows, valueBytes and tasks."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> StructType:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        rows, value_bytes, tasks = (
            int(self.options[name]) for name in ("rows", "valueBytes", "tasks")
        )
        return ReadyBatches(rows, value_bytes, tasks)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return Discarded()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return DiscardedStream()


class ReadyBatches(DataSourceReader):
    def __init__(self, rows: int, value_bytes: int, tasks: int) -> None:
        self.rows = rows
        self.value_bytes = value_bytes
        self.tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """As many rows in each task, but for those that are left over."""
        share, over = divmod(self.rows, self.tasks)
        return [InputPartition(share + (number < over)) for number in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left: int = partition.value
        at_once = max(1, CHUNK_BYTES // (self.value_bytes + OTHER_COLUMN_BYTES))
        batch = ready_batch(min(at_once, left), self.value_bytes)
        while left > 0:
            part = batch.slice(0, left)  # the whole, but for the last one
            left -= part.num_rows
            yield part


def ready_batch(rows: int, value_bytes: int) -> pa.RecordBatch:
    columns = {
        "key": [None] * rows,
        "value": [bytes(value_bytes)] * rows,
        "topic": ["floor"] * rows,
        "partition": [0] * rows,
        "offset": list(range(rows)),
        "timestamp": list(range(rows)),
        "timestampType": [0] * rows,
    }
    schema = to_arrow_schema(COLUMNS, timezone="UTC")
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Discarded(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class DiscardedStream(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

"""The readers of the source, driven as Spark drives them, without its JVM."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock.spark.source.batch import BatchReader
from penstock.spark.source.columns import schema_of
from penstock.spark.source.options import source_options
from penstock.spark.source.stream import StreamReader
from rig.clients.interface import Message


def batch_reader(bootstrap: str, schema: StructType | None = None, **options: str) -> BatchReader:
    told = source_options({"kafka.bootstrap.servers": bootstrap, **options}, streaming=False)
    return BatchReader(told, schema or schema_of(include_headers=told.include_headers))


def stream_reader(bootstrap: str, **options: str) -> StreamReader:
    told = source_options({"kafka.bootstrap.servers": bootstrap, **options}, streaming=True)
    return StreamReader(told, schema_of(include_headers=told.include_headers))


def rows_of(
    reader: BatchReader | StreamReader, parts: Sequence[InputPartition] | None = None
) -> list[dict[str, Any]]:
    """Every row, in the order of the tasks."""
    if parts is None:
        assert isinstance(reader, BatchReader)
        parts = reader.partitions()
    batches: list[pa.RecordBatch] = [batch for part in parts for batch in reader.read(part)]
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def numbered(count: int, partition: int, first: int = 0) -> list[Message]:
    return [Message(value=b"%d" % (first + one), partition=partition) for one in range(count)]

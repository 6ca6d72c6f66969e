"""A stream of records without a node: each batch of a query is one file."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.spark.pipelines.generated import Event

RECORDS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def streamed(
    spark: SparkSession,
    folder: Path,
    batches: Sequence[Sequence[Event]],
    step: Callable[[DataFrame], DataFrame],
    *,
    output_mode: str,
) -> list[Row]:
    """What a query has written after all batches, in the order of its batches."""
    folder.mkdir()
    for number, batch in enumerate(batches):
        _write(folder / f"{number}.parquet", batch)
    source = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1)
    table = folder.name.replace("-", "_")
    query = (
        step(source.parquet(str(folder / "*.parquet")))
        .writeStream.format("memory")
        .queryName(table)
        .outputMode(output_mode)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table(table).collect()


def _write(path: Path, events: Sequence[Event]) -> None:
    columns = {
        "key": [event.key for event in events],
        "value": [event.value for event in events],
        "topic": [event.topic for event in events],
        "partition": pa.array([0] * len(events), pa.int32()),
        "offset": list(range(len(events))),
        "timestamp": [datetime.fromtimestamp(event.timestamp_ms / 1000, UTC) for event in events],
        "headers": pa.array([None] * len(events), HEADERS),
    }
    pyarrow.parquet.write_table(pa.table(columns), path)

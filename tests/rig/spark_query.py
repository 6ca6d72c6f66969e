"""A query of the tests: it carries numbered rows from a topic to another, and may be struck."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

PENSTOCK, OFFICIAL = "penstock", "kafka"
ROWS = "key binary, value binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrying:
    """What is carried, and by whom; it goes to a driver program as JSON."""

    bootstrap: str
    source: str
    sink: str
    checkpoint: str
    reader: str = PENSTOCK
    writer: str = PENSTOCK
    rows_per_batch: int | None = None
    failing_batch: int | None = None  # whose first task fails at its end, once
    by_batches: bool = False  # each is a write of its own, which is told whose it is
    reader_options: dict[str, str] = field(default_factory=dict)
    writer_options: dict[str, str] = field(default_factory=dict)


def start(spark: SparkSession, carrying: Carrying) -> StreamingQuery:
    """Carries what is there now, batch by batch, and ends."""
    rows = source_rows(spark, carrying)
    if carrying.failing_batch is not None:
        rows = rows.mapInArrow(failing_once(carrying.failing_batch), ROWS)
    writer = rows.writeStream.option("checkpointLocation", carrying.checkpoint)
    options = sink_options(carrying)
    if carrying.by_batches:
        writer = writer.foreachBatch(batch_writer(carrying.writer, options))
    else:
        writer = writer.format(carrying.writer).options(**options)
    return writer.trigger(availableNow=True).start()


def sink_options(carrying: Carrying) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": carrying.bootstrap,
        "topic": carrying.sink,
        **carrying.writer_options,
    }


def batch_writer(name: str, options: dict[str, str]) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` is given."""

    def write(rows: DataFrame, batch_id: int) -> None:
        told = rows.sparkSession.sparkContext.getLocalProperty
        rows.write.format(name).mode("append").options(
            queryId=str(told("sql.streaming.queryId")),
            runId=str(told("spark.jobGroup.id")),
            batchId=str(batch_id),
            **options,
        ).save()

    return write


def carry(spark: SparkSession, carrying: Carrying) -> None:
    """Carries what is there now; raises what the query ended with."""
    start(spark, carrying).awaitTermination()


def source_rows(spark: SparkSession, carrying: Carrying) -> DataFrame:
    reader = (
        spark.readStream.format(carrying.reader)
        .option("kafka.bootstrap.servers", carrying.bootstrap)
        .option("subscribe", carrying.source)
        .option("startingOffsets", "earliest")
        .options(**carrying.reader_options)
    )
    if carrying.rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(carrying.rows_per_batch))
    return reader.load().select("key", "value")


def failing_once(batch_id: int) -> Callable[..., Iterator[pyarrow.RecordBatch]]:
    """A step that lets all rows of a task pass and then fails, in the first attempt."""

    def step(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        yield from batches
        if is_first_attempt(batch_id):
            raise RuntimeError("the first attempt of this task fails when its rows are written")

    return step


def is_first_attempt(batch_id: int) -> bool:
    """Of the first task of a batch."""
    task = TaskContext.get()
    assert task is not None
    return (
        task.getLocalProperty("streaming.sql.batchId") == str(batch_id)
        and task.partitionId() == 0
        and task.attemptNumber() == 0
    )

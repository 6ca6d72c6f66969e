"""Data frames into topics, by queries and by single writes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rig.serve import ServedNode
from rig.sink_output import committed_records, open_transactional_ids

ROWS = 300


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the lines of files; each batch takes one file."""
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))


def add_file(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    text = "".join(f"{number}-{row}\n" for row in range(ROWS))
    (folder / "in" / f"{number}.txt").write_text(text)


def write(frame: DataFrame, node: ServedNode, folder: Path, **options: str) -> StreamingQuery:
    query = (
        frame.writeStream.format("penstock")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    return query


def test_query_writes_every_row_once(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str], folder: Path
) -> None:
    name = topic(partitions=3)
    for number in range(3):
        add_file(folder, number)
    write(lines(spark, folder), node, folder, topic=name)
    add_file(folder, 3)
    write(lines(spark, folder), node, folder, topic=name)
    found = Counter(record.value for record in committed_records(node.bootstrap, name))
    assert found == Counter(f"{n}-{row}".encode() for n in range(4) for row in range(ROWS))
    assert open_transactional_ids(node.bootstrap) == []


def test_write_is_there_whole(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    frame = spark.range(ROWS).repartition(2).selectExpr("cast(id as string) as value")
    save(frame, node, topic=name)
    found = Counter(record.value for record in committed_records(node.bootstrap, name))
    assert found == Counter(str(row).encode() for row in range(ROWS))
    assert open_transactional_ids(node.bootstrap) == []


def test_write_of_a_query_is_skipped_when_it_is_decided(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic()
    frame = spark.range(ROWS).selectExpr("cast(id as string) as value")
    for batch_id, run_id in [(0, "first"), (1, "first"), (1, "second"), (2, "second")]:
        identity = {"sinkId": name, "queryId": "query", "runId": run_id, "batchId": str(batch_id)}
        save(frame, node, topic=name, **identity)
    assert len(committed_records(node.bootstrap, name)) == 3 * ROWS


def save(frame: DataFrame, node: ServedNode, **options: str) -> None:
    writer = frame.write.format("penstock").mode("append")
    writer.option("kafka.bootstrap.servers", node.bootstrap).options(**options).save()

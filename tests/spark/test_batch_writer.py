"""A function of foreachBatch writes each batch once, by the writer that the guide shows."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock.spark
from penstock.spark.foreach_batch import NoQuery
from rig.clients.confluent import ConfluentClient
from rig.serve import ServedNode
from rig.sink_output import committed_values
from rig.source_tree import ROOT

GUIDE = ROOT / "docs" / "spark-sink.md"
SEVERAL = 3
Write = Callable[[DataFrame, int], None]


def write_of_the_guide(bootstrap: str) -> Write:
    [_, section] = GUIDE.read_text("utf-8").split("**In foreachBatch**")
    block = re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert block is not None
    names: dict[str, Write] = {}
    exec(block[1].replace("127.0.0.1:9092", bootstrap), names)
    return names["write"]


def run(spark: SparkSession, folder: Path, write: Write) -> None:
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))
    query = (
        lines.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.parametrize("named", [True, False])
def test_batch_that_is_written_again_is_there_once(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
    named: bool,
) -> None:
    (folder / "in").mkdir()
    for number in range(SEVERAL):
        (folder / "in" / f"{number}.txt").write_text(f"{number}\n")
    name = "orders.totals" if named else topic()
    if named:
        confluent.create_topic(name, partitions=1)
    of_the_guide = write_of_the_guide(node.bootstrap)

    def write(frame: DataFrame, batch_id: int) -> None:
        if named:
            return of_the_guide(frame, batch_id)
        options = {"kafka.bootstrap.servers": node.bootstrap, "topic": name}
        penstock.spark.batch_writer(frame, batch_id).options(**options).save()

    def write_and_fail(frame: DataFrame, batch_id: int) -> None:
        write(frame, batch_id)
        if batch_id == 1:
            raise RuntimeError("after the write")

    with pytest.raises(Exception, match="after the write"):
        run(spark, folder, write_and_fail)
    run(spark, folder, write)
    assert committed_values(node.bootstrap, name) == [b"0", b"1", b"2"]


def test_batch_without_a_query_is_refused(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("'row' AS value")
    with pytest.raises(NoQuery, match="not called by a query"):
        penstock.spark.batch_writer(frame, 0)
    context = spark.sparkContext
    context.setLocalProperty("sql.streaming.queryId", "query")
    context.setJobGroup("nightly", "a group of the program's own")
    try:
        with pytest.raises(NoQuery, match="its job group is 'nightly'"):
            penstock.spark.batch_writer(frame, 0)
    finally:
        for name in ("sql.streaming.queryId", "spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # which takes it away

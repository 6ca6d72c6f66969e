"""A query that counts, and dies after its batch is in the tables: it goes on and counts right."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark.tables import delta
from penstock.spark.tables import postgres as postgres_tables


def test_a_counting_query_goes_on_after_a_batch_that_was_written(
    spark: SparkSession, folder: Path, postgres: str
) -> None:
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE counts (word text PRIMARY KEY, n bigint)")
    for number, words in enumerate([["a", "b", "a"], ["b", "c"], ["a", "c"]]):
        lines = "\n".join(json.dumps({"word": word}) for word in words)
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{number}.json").write_text(lines)
        os.utime(folder / "in" / f"{number}.json", (number, number))  # older ones come first
    dying = {1}
    written = []

    def into(frame: DataFrame, batch_id: int) -> None:
        rows = frame.persist()
        written.append(
            (
                batch_id,
                delta.write(rows, batch_id, table=str(folder / "log"), app="log"),
                postgres_tables.upsert(
                    rows, batch_id, dsn=postgres, table="counts", keys=["word"], app="counts"
                ),
            )
        )
        rows.unpersist()
        if batch_id in dying:
            dying.remove(batch_id)
            raise InterruptedError("after the tables, and before Spark knows")

    def run() -> None:
        lines = (
            spark.readStream.schema("word string")
            .option("maxFilesPerTrigger", 1)
            .json(str(folder / "in"))
        )
        counts = lines.groupBy("word").agg(F.count("*").alias("n"))
        query = (
            counts.writeStream.foreachBatch(into)
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(StreamingQueryException, match="before Spark knows"):
        run()
    run()
    assert written == [(0, True, True), (1, True, True), (1, False, False), (2, True, True)]
    with psycopg.connect(postgres) as connection:
        found = connection.execute("SELECT word, n FROM counts ORDER BY word").fetchall()
    assert found == [("a", 3), ("b", 2), ("c", 2)]
    logged = DeltaTable(str(folder / "log")).to_pyarrow_table().to_pylist()
    assert sorted((row["word"], row["n"]) for row in logged) == [
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("b", 2),
        ("c", 1),
        ("c", 2),
    ]


def test_a_batch_whose_query_spark_does_not_tell_is_refused(
    spark: SparkSession, folder: Path, postgres: str
) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "0.txt").write_text("a")
    table = str(folder / "log")
    refused: list[str] = []

    def into(frame: DataFrame, batch_id: int) -> None:
        with ThreadPoolExecutor(1) as pool:
            for write in (
                pool.submit(delta.write, frame, batch_id, table=table, app="log"),
                pool.submit(
                    postgres_tables.upsert,
                    frame,
                    batch_id,
                    dsn=postgres,
                    table="nowhere",
                    keys=["value"],
                    app="log",
                ),
            ):
                refused.append(str(write.exception()))

    query = (
        spark.readStream.text(str(folder / "in"))
        .writeStream.foreachBatch(into)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert ["pass query=" in line for line in refused] == [True, True]
    assert not DeltaTable.is_deltatable(table)
    rows = spark.createDataFrame([("a",)], "value string")
    assert delta.write(rows, 0, table=table, app="log", query="")
    assert not delta.write(rows, 0, table=table, app="log", query="")

"""A query of Spark that reads a topic from its start, and stores what it reads in files."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

QUERY_SECONDS_MAX = 300


def stream_of(
    spark: SparkSession, bootstrap: str, topic: str, *, schema: str | None = None, **options: str
) -> DataFrame:
    reader = spark.readStream.format("penstock")
    if schema is not None:
        reader = reader.schema(schema)
    told = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return reader.options(startingOffsets="earliest", **told, **options).load()


def store_what_is_there(rows: DataFrame, folder: Path) -> StreamingQuery:
    """Goes on where the query before has ended in this folder, and ends itself."""
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_SECONDS_MAX)
    return query


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder / "out"))

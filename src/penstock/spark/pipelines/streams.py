"""How jobs read topics and start queries, so that all of them do it in one way.

A query has one name for everything: its checkpoint folder, its sink's identity on the cluster, and
what the progress shows. Two runs of one query against one cluster are therefore one sink, and the
older run is fenced by the newer.
"""

import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.pipelines.place import Place

FORMAT = "penstock"
LOOK_SECONDS = 0.05


def read_topics(spark: SparkSession, place: Place, *topics: str, **options: str) -> DataFrame:
    """A stream of the records of topics, from their first; the columns are the source's."""
    assert topics
    reader = (
        spark.readStream.format(FORMAT)
        .option("kafka.bootstrap.servers", place.bootstrap)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
    )
    if place.batch_records_max is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(place.batch_records_max))
    return reader.options(**options).load()


def write_topics(
    frame: DataFrame,
    place: Place,
    *,
    query: str,
    output_mode: str = "append",
    topic: str | None = None,
    **options: str,
) -> StreamingQuery:
    """Starts a query into topics, exactly once; a row's column `topic` where no topic is given."""
    own = {"kafka.bootstrap.servers": place.bootstrap, "sinkId": query} | options
    if topic is not None:
        own["topic"] = topic
    if output_mode == "append":
        return _begun(_writer(frame, place, query).format(FORMAT).options(**own).start())

    # Spark lets no sink that is written in Python take updates of rows. A batch that is written by
    # itself may have them, and with the query's identity it is one of the query's all the same.
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format(FORMAT).mode("append").options(**own).options(
            queryId=_local_property(batch, "sql.streaming.queryId"),
            runId=_local_property(batch, "spark.jobGroup.id"),
            batchId=str(batch_id),
        ).save()

    return write_batches(frame, place, query=query, into=write, output_mode=output_mode)


def write_batches(
    frame: DataFrame,
    place: Place,
    *,
    query: str,
    into: Callable[[DataFrame, int], None],
    output_mode: str = "append",
) -> StreamingQuery:
    """Starts a query that hands each batch and its number to `into`, which must bear a repeat."""
    return _begun(_writer(frame, place, query).outputMode(output_mode).foreachBatch(into).start())


def _begun(query: StreamingQuery) -> StreamingQuery:
    """The query when its sources are there. Spark gives the Python process of a source ten seconds
    to come up, and many of them at once take longer on a small machine.
    """
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(LOOK_SECONDS)
    return query


def _writer(frame: DataFrame, place: Place, query: str) -> DataStreamWriter:
    writer = frame.writeStream.queryName(query).option(
        "checkpointLocation", place.checkpoint(query)
    )
    if place.once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{round(place.trigger_seconds * 1000)} milliseconds")


def _local_property(frame: DataFrame, name: str) -> str:
    """What Spark tells of the query while one of its batches is being written."""
    value: str | None = frame.sparkSession.sparkContext.getLocalProperty(name)
    assert value is not None, name
    return value

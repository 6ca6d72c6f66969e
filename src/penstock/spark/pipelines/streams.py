"""How jobs read topics and start queries, so that all of them do it in one way.

A query has one name for everything: its checkpoint folder, its sink's identity on the cluster, and
what the progress shows. Two runs of one query against one cluster are therefore one sink, and the
older run is fenced by the newer.
"""

import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.utils import is_remote

from penstock.model.error import PenstockError
from penstock.spark.foreach_batch import FORMAT, batch_writer
from penstock.spark.pipelines.place import Place

LOOK_SECONDS = 0.05
FIRST_BATCHES_AT_ONCE = 2
FIRST_BATCH_SECONDS_MAX = 60.0
CAME_LATE = "Python worker failed to connect back"
RESTARTS_MAX = 5


class UpdatesNeedDriver(PenstockError):
    """This program has no driver of its own, only a way to one."""


def read_topics(spark: SparkSession, place: Place, *topics: str, **options: str) -> DataFrame:
    """A stream of the records of topics, from their first; the columns are the source's. A batch of
    a backlog ends at about the same time in all partitions, so that a watermark makes none late.
    """
    assert topics
    reader = (
        spark.readStream.format(FORMAT)
        .options(**place.brokers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
    )
    if place.batch_records_max is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(place.batch_records_max))
        reader = reader.option("maxOffsetsPerTriggerBy", "timestamp")
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
    own = {**place.brokers, "sinkId": query} | options
    if topic is not None:
        own["topic"] = topic
    if output_mode == "append":
        writer = _writer(frame, place, query).format(FORMAT).options(**own)
        return _started(writer, frame.sparkSession.streams)

    if is_remote():
        raise UpdatesNeedDriver(
            f"{query} writes updates of rows, which a client of Spark Connect can't: it is not told"
            " of the query's batches. Run it with --master or by spark-submit"
        )

    # Spark lets no sink that is written in Python take updates of rows. A batch that is written by
    # itself may have them, and with the query's identity it is one of the query's all the same.
    def write(batch: DataFrame, batch_id: int) -> None:
        batch_writer(batch, batch_id, sink_id=query).options(**own).save()

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
    writer = _writer(frame, place, query).outputMode(output_mode).foreachBatch(into)
    return _started(writer, frame.sparkSession.streams)


def _started(writer: DataStreamWriter, others: StreamingQueryManager) -> StreamingQuery:
    """The query, started again where Spark was impatient: it gives the Python process of a source
    ten seconds to come up, which a small machine may exceed while other queries do their first and
    slowest batch. So these, too, are waited for, all but one.
    """
    query = _begun(writer.start(), others)
    for _ in range(RESTARTS_MAX):
        failure = None if query.isActive else query.exception()
        if failure is None or CAME_LATE not in str(failure):
            break
        query = _begun(writer.start(), others)
    return query


def _begun(query: StreamingQuery, others: StreamingQueryManager) -> StreamingQuery:
    """The query when it is time to start another one: its source is there, and few are busy."""
    deadline_s = time.monotonic() + FIRST_BATCH_SECONDS_MAX
    while time.monotonic() < deadline_s:
        is_coming = query.isActive and query.status["message"].startswith("Initializing")
        busy = sum(_is_in_first_batch(one) for one in others.active)
        if not is_coming and busy < FIRST_BATCHES_AT_ONCE:
            break
        time.sleep(LOOK_SECONDS)
    return query


def _is_in_first_batch(query: StreamingQuery) -> bool:
    return query.lastProgress is None and not query.status["message"].startswith("Waiting for")


def _writer(frame: DataFrame, place: Place, query: str) -> DataStreamWriter:
    writer = frame.writeStream.queryName(query).option(
        "checkpointLocation", place.checkpoint(query)
    )
    if place.once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{round(place.trigger_seconds * 1000)} milliseconds")

"""Queries that are stopped in the middle of a batch, one after the other."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.sink.decision import SinkRecord
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.options import DECISION_TOPIC
from rig.numbered_rows import make_topics, open_transactions, write_numbers
from rig.sink_output import cluster_at
from rig.spark_query import PENSTOCK, Carrying, sink_options, source_rows

ROWS = 1_200
PARTITIONS = 4
PATIENCE_SECONDS = 180.0
LOOK_SECONDS = 0.3
STARTS_MAX = 5


def stopped_query(
    spark: SparkSession, carrying: Carrying, *, pause: Callable[[], None] = lambda: None
) -> str:
    """Starts a query that runs on, and stops it when a transaction of its sink is open and a while
    (`pause`) has passed; the run's id.
    """
    sink = carrying.writer_options["sinkId"]
    for _ in range(STARTS_MAX):
        query = start_endless(spark, carrying)
        look_until(
            # Of this run: a task of the one before may have written late, and be about to end it.
            lambda query=query: (
                bool(open_of(carrying.bootstrap, f"{sink}.{query.runId}")) or not query.isActive
            ),
            "a transaction of the sink",
        )
        if query.isActive:
            pause()
            query.stop()
            return str(query.runId)
        # Spark gives a Python process ten seconds to start, which is not enough on a busy machine.
    raise AssertionError(f"no query comes to write: {query.exception()}")


def start_endless(spark: SparkSession, carrying: Carrying) -> StreamingQuery:
    return (
        source_rows(spark, carrying)
        .writeStream.format(PENSTOCK)
        .options(**sink_options(carrying))
        .option("checkpointLocation", carrying.checkpoint)
        .start()
    )


def to_be_stopped(bootstrap: str, folder: Path, name: str) -> Carrying:
    """A query of many batches, with topics of its own."""
    source, sink = f"{name}-in", f"{name}-out"
    make_topics(bootstrap, source, sink, partitions=PARTITIONS)
    write_numbers(bootstrap, source, range(ROWS))
    return Carrying(
        bootstrap=bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(folder / name),
        rows_per_batch=ROWS // 60,
        writer_options={"sinkId": name},
    )


def all_at_once(carrying: Carrying) -> Carrying:
    """The same query, to carry the rest."""
    return replace(carrying, rows_per_batch=None)


def look_until(holds: Callable[[], bool], what: str) -> None:
    """With a pause between two looks: Spark has to get on meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not so within {PATIENCE_SECONDS:.0f} s: {what}"
        time.sleep(LOOK_SECONDS)


def open_of(bootstrap: str, sink: str) -> list[str]:
    return [one for one in open_transactions(bootstrap) if one.startswith(f"{sink}.")]


def record_of(bootstrap: str, sink: str) -> SinkRecord | None:
    async def read() -> SinkRecord | None:
        async with cluster_at(bootstrap) as cluster:
            decisions = DecisionTopic(cluster=cluster, name=DECISION_TOPIC)
            return (await decisions.last(sink)).record

    return asyncio.run(read())

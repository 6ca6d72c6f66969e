"""A query that carries rows from topic to topic, and the clients at both ends, who tell when.

One row for each task and batch. The rows of a batch are written when those of the batch before can
be read, and the query waits until there are as many as that.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from request_counts import OwnRequests, Requests, requests
from spark_sides import BEFORE, CONNECTOR, FLOOR, OURS
from spark_topics import QUIET, create

OUTPUT_PARTITIONS = 12
PATIENCE_SECONDS = 300
LOOK_SECONDS = 0.01
POLL_SECONDS = 0.1
EXACTLY_ONCE, AT_LEAST_ONCE, BEFORE_THIS = "exactly once", "at least once", "before"
# Source and sink, and options of the sink.
WAYS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    EXACTLY_ONCE: (OURS, OURS, {}),
    AT_LEAST_ONCE: (OURS, OURS, {"delivery": "at_least_once"}),
    BEFORE_THIS: (BEFORE, BEFORE, {}),
    "connector": (CONNECTOR, CONNECTOR, {}),
    "floor": (OURS, FLOOR, {}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    bootstrap: str
    metrics: str  # where the node tells them
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Times are in milliseconds."""

    rows: int
    visible: float | None  # from the trigger; None for rows that are discarded
    felt: float | None  # from when the rows were acked
    whole: float  # from the trigger to the end of the batch
    adding: float  # of that, tasks and the sink's commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    tasks: int
    way: str
    batches: list[Batch]
    requests: Requests  # for each batch


class Carrying:
    """A query between two topics, and the clients at both ends."""

    def __init__(self, spark: SparkSession, place: Place, *, tasks: int, way: str) -> None:
        self._tasks, self._way, self._url = tasks, way, place.metrics
        self._sink = WAYS[way][1]
        name = f"{way.replace(' ', '-')}-{tasks}"
        self._input, self._output = f"{name}-in", f"{name}-out"
        create(place.bootstrap, self._input, tasks)
        create(place.bootstrap, self._output, OUTPUT_PARTITIONS)
        self._producer_sent, self._consumer_sent = OwnRequests(), OwnRequests()
        client = {"bootstrap.servers": place.bootstrap, **QUIET}
        self._producer = Producer({**client, "linger.ms": 0, **self._producer_sent.settings})
        self._consumer = Consumer(
            {
                **client,
                "group.id": name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **self._consumer_sent.settings,
            }
        )
        self._consumer.assign(
            [TopicPartition(self._output, number, 0) for number in range(OUTPUT_PARTITIONS)]
        )
        self._query = self._started(spark, place.bootstrap, place.folder / name)
        self._seen = -1  # the last batch of the query that was looked at

    def measured(self, batches: int, warm_up: int) -> Result:
        """The first batch of a query does not wait for all its rows, so one at least warms up."""
        for number in range(max(1, warm_up)):
            self._carry(number)
        before = self._requests()
        found = [self._carry(max(1, warm_up) + number) for number in range(batches)]
        assert all(one.rows == self._tasks for one in found), found
        asked_for = self._requests().since(before, batches)
        return Result(tasks=self._tasks, way=self._way, batches=found, requests=asked_for)

    def close(self) -> None:
        self._query.stop()
        self._consumer.close()

    def _started(self, spark: SparkSession, bootstrap: str, checkpoint: Path) -> StreamingQuery:
        source, sink, options = WAYS[self._way]
        place = {"kafka.bootstrap.servers": bootstrap}
        rows = spark.readStream.format(source).options(
            **place,
            subscribe=self._input,
            startingOffsets="earliest",
            minPartitions=str(self._tasks),
            # All rows of a batch, however many triggers come while they are being written.
            minOffsetsPerTrigger=str(self._tasks),
            maxTriggerDelay="1h",
        )
        writer = rows.load().select("key", "value").writeStream.format(sink)
        writer = writer.options(**place, **options).option("topic", self._output)
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def _carry(self, number: int) -> Batch:
        """One batch, from the writing of its rows until they can be read and it has ended."""
        text = str(number).encode()
        for partition in range(self._tasks):
            key = f"{number}-{partition}".encode()
            self._producer.produce(self._input, text, key=key, partition=partition)
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        acked = time.time()
        visible = None if self._sink == FLOOR else self._when_visible(text)
        last = self._ended()
        trigger = datetime.fromisoformat(last.timestamp).timestamp()
        return Batch(
            rows=last.numInputRows,
            visible=None if visible is None else (visible - trigger) * 1000,
            felt=None if visible is None else (visible - acked) * 1000,
            whole=last.durationMs["triggerExecution"],
            adding=last.durationMs["addBatch"],
        )

    def _when_visible(self, text: bytes) -> float:
        keys: set[bytes] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(keys) < self._tasks:
            self._check(deadline)
            # No more than are missing: it waits for as many as it is asked for.
            missing = self._tasks - len(keys)
            for message in self._consumer.consume(missing, timeout=POLL_SECONDS):
                assert message.error() is None, message.error()
                if message.value() == text:
                    keys.add(message.key())
        return time.time()

    def _ended(self) -> StreamingQueryProgress:
        """The batch that has just carried rows; Spark reports it when it is all done."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._check(deadline)
            for progress in reversed(self._query.recentProgress):
                if progress.numInputRows > 0 and progress.batchId > self._seen:
                    self._seen = progress.batchId
                    return progress
            time.sleep(LOOK_SECONDS)

    def _check(self, deadline: float) -> None:
        failure = None if self._query.isActive else self._query.exception()
        if failure is not None:
            raise failure
        assert time.monotonic() < deadline, json.dumps(self._query.status)

    def _requests(self) -> Requests:
        own = [
            self._producer_sent.sent(lambda: self._producer.poll(POLL_SECONDS)),
            self._consumer_sent.sent(lambda: self._consumer.poll(POLL_SECONDS)),
        ]
        return requests(self._url, own)

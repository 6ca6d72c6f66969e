"""Ends the transactions that a query's sink has left open, when the query is idle or has ended.

A task that Spark kills may have an open transaction that nothing else would end: its batch is
decided or given up by then. It would block every read_committed reader. So while a query waits for
data, the open transactions of its last batch are aborted; when a query has ended, however it did,
all of them are, for as long as Spark is still ending its tasks.

Spark calls listeners in the driver's Python one after the other, so the work is done in separate
threads, which the end of the program waits for. In a session that was not registered, or with Spark
Connect, there is no such listener, and the next run of the query does this. Writes in foreachBatch
are not known here: each of them cleans up by itself.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.spark.config_file import with_file
from penstock.spark.connection import run
from penstock.spark.data_source import NAME
from penstock.spark.sink.decision import Claim
from penstock.spark.sink.driver import clear_idle_query, end_query
from penstock.spark.sink.options import SinkMode, SinkOptions, sink_options

WRITE = "WriteToMicroBatchDataSource"  # Spark's plan of a query whose sink is a data source
OVER_SECONDS_MAX = 60.0
ROUNDS_MAX = 3  # Spark tells of an idle query every ten seconds, and kills tasks within a few

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A run of a query, as Spark knows it."""

    query_id: str
    run_id: str
    execution: Any  # Spark's

    @property
    def claim(self) -> Claim:
        return Claim(query_id=self.query_id, run_id=self.run_id)


class CleanUpListener(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Query] = {}
        self._clearing: set[str] = set()  # runs that are idle, while it takes longer than that
        self._rounds: dict[str, int] = {}  # how often a run was idle since its last batch
        atexit.register(self._end_those_left)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query_id, run_id = str(event.id), str(event.runId)
        started = self._spark._jsparkSession.streams().get(query_id)
        if started is not None:
            self._runs[run_id] = Query(
                query_id=query_id, run_id=run_id, execution=started.streamingQuery()
            )

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._rounds.pop(str(event.progress.runId), None)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        query = self._runs.get(str(event.runId))
        if query is None or query.run_id in self._clearing:
            return
        rounds = self._rounds[query.run_id] = self._rounds.get(query.run_id, 0) + 1
        if rounds > ROUNDS_MAX:
            return
        self._clearing.add(query.run_id)

        def clear(options: SinkOptions) -> Coroutine[Any, Any, None]:
            return clear_idle_query(options, options.query_sink, query.claim)

        self._start(query, clear, done=lambda: self._clearing.discard(query.run_id))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._rounds.pop(str(event.runId), None)
        query = self._runs.pop(str(event.runId), None)
        if query is not None:
            self._start(query, self._ending(query))

    def _end_those_left(self) -> None:
        """The program has ended, and Spark has not yet told of queries that it stopped at last."""
        for run_id in list(self._runs):
            query = self._runs.pop(run_id, None)
            if query is not None and not _is_active(query):
                self._clear_up(query, self._ending(query))

    def _ending(self, query: Query) -> Callable[[SinkOptions], Coroutine[Any, Any, None]]:
        deadline = time.monotonic() + OVER_SECONDS_MAX

        def is_over() -> bool:
            return time.monotonic() >= deadline or not self._has_tasks(query.run_id)

        def end(options: SinkOptions) -> Coroutine[Any, Any, None]:
            return end_query(options, options.query_sink, query.claim, is_over)

        return end

    def _start(
        self,
        query: Query,
        work: Callable[[SinkOptions], Coroutine[Any, Any, None]],
        *,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        def clear_up() -> None:
            try:
                self._clear_up(query, work)
            finally:
                done()

        threading.Thread(target=clear_up, name=f"penstock clears up {query.run_id}").start()

    def _clear_up(
        self, query: Query, work: Callable[[SinkOptions], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            options = self._options(query)
            if options is not None:
                run(work(options))
        except Exception as error:  # nobody else would report it
            logger.warning(
                "open transactions of a query are not ended query=%s: %s: %s",
                query.query_id, type(error).__name__, error,
            )  # fmt: skip

    def _options(self, query: Query) -> SinkOptions | None:
        """Of its sink; None where that is another one, or has no transactions."""
        try:
            plan = query.execution.logicalPlan()
            if plan.getClass().getSimpleName() != WRITE or plan.table().name() != NAME:
                return None
            jvm: Any = self._spark._jvm
            to_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
            told = dict(to_java(plan.writeOptions()))
        except (Py4JError, AttributeError):
            return None  # it ended before it was planned, or Spark has ended
        read = sink_options(with_file(told))
        return read if read.mode is SinkMode.EXACTLY_ONCE else None

    def _has_tasks(self, run_id: str) -> bool:
        """Whether tasks of a run are still running, those included that Spark is killing."""
        try:
            tracker = self._spark.sparkContext.statusTracker()
            for job_id in tracker.getJobIdsForGroup(run_id):
                job = tracker.getJobInfo(job_id)
                for stage_id in [] if job is None else job.stageIds:
                    stage = tracker.getStageInfo(stage_id)
                    if stage is not None and stage.numActiveTasks > 0:
                        return True
        except (Py4JError, AttributeError):
            return False  # Spark has ended, and its tasks with it
        return False


def _is_active(query: Query) -> bool:
    try:
        return bool(query.execution.isActive())
    except (Py4JError, AttributeError):
        return False

"""A write that is no query's: all of it, or nothing.

Spark makes and pickles the writer once, for its tasks and for its end: so its identity goes all the
way. Without `sinkId` that is made here, and the decision is there from the moment that it is made
until it is carried out. With `sinkId` it is a sink's like a query's, and each write a generation of
its own, unless it is told which batch of which run of a query it is.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.network.cluster import Cluster
from penstock.spark.connection import run
from penstock.spark.options import BadOption
from penstock.spark.sink.at_least_once import write_plainly
from penstock.spark.sink.columns import columns_of
from penstock.spark.sink.decision import Claim, Prepared
from penstock.spark.sink.driver import (
    KILL_MS_MAX,
    Plan,
    decide_batch,
    decide_write,
    give_up_batch,
    is_late_for_batch,
    is_late_for_single,
    place_of_driver,
    plan_write,
)
from penstock.spark.sink.flows import is_decided
from penstock.spark.sink.names import TaskNumbers, first_attempt, single_write_sink
from penstock.spark.sink.options import BatchIdentity, SinkMode, SinkOptions
from penstock.spark.sink.output_topics import need_output_topic
from penstock.spark.sink.record_change import Driver
from penstock.spark.sink.single_writes import given_up_by_another
from penstock.spark.sink.task import Late, Work, compute, numbers_of, with_rows, write_attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What a task tells the driver; nothing is prepared where it had no rows, or came too late."""

    prepared: Prepared | None
    is_late: bool = False


class BatchSink(DataSourceArrowWriter):
    """Making it asks nobody anything."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise BadOption('a topic can\'t be overwritten: write with mode("append")')
        self.options = options
        self.columns = columns_of(schema, topic=options.topic)
        self.exactly_once = options.mode is SinkMode.EXACTLY_ONCE
        own = str(uuid.uuid4())
        self.identity = options.identity or BatchIdentity(query_id=own, run_id=own, batch_id=0)
        self.sink = options.sink_id or single_write_sink(own)
        self.once = options.sink_id is None
        self.plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a writer before its tasks begin, and nobody else does."""
        if self.exactly_once and self.plan is None:
            claim = self._claim(place_of_driver())
            batch_id = self.identity.batch_id
            plan = run(plan_write(self.options, self.sink, claim, batch_id, once=self.once))
            self.plan = plan.for_tasks
        if not self.exactly_once and self.options.topic is not None:
            run(need_output_topic(self.options.connection, self.options.topic))
        return self.__dict__.copy()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "Spark calls this in tasks"
        work = Work(
            rows=iterator,
            columns=self.columns,
            options=self.options,
            partition=task.partitionId(),
        )
        if self.plan is None:
            return run(write_plainly(work))
        return run(self._write(work, self.plan, numbers_of(task)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.plan is None:
            return
        written = [one for one in messages if isinstance(one, Written)]
        assert len(written) == len(messages), messages
        prepared = [one.prepared for one in written if one.prepared is not None]
        driver = self.plan.driver(self._claim(self.plan.place))
        if not self.once:
            batch_id = self.identity.batch_id
            run(decide_batch(self.options, driver, self.plan.known, batch_id, prepared))
        elif any(one.is_late for one in written):
            # This driver takes the decider's id only here and in `abort`: somebody else has.
            raise given_up_by_another(self.sink)
        elif prepared:
            run(decide_write(self.options, driver, self.plan.known, prepared))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.plan is not None:
            driver = self.plan.driver(self._claim(self.plan.place))
            batch_id = self.identity.batch_id
            # Spark is still ending the tasks that have told nothing yet.
            watch_ms = KILL_MS_MAX if None in messages else 0
            run(
                give_up_batch(
                    self.options, self.sink, driver, batch_id, once=self.once, watch_ms=watch_ms
                )
            )

    def _claim(self, place: str) -> Claim:
        return Claim(query_id=self.identity.query_id, run_id=self.identity.run_id, driver=place)

    async def _write(self, work: Work, plan: Plan, task: TaskNumbers) -> Written:
        batch_id = self.identity.batch_id
        if is_decided(self._claim(plan.place), batch_id, plan.found):
            await compute(work)
            return Written(prepared=None)
        run_id = self.identity.run_id
        own = first_attempt(self.sink, run_id, batch_id, task, two_phase=plan.two_phase)
        driver = plan.driver(self._claim(plan.place))

        async def write(cluster: Cluster, work: Work) -> Prepared | Late | None:
            return await write_attempt(
                cluster,
                work,
                own,
                two_phase=plan.two_phase,
                is_late=lambda: self._is_late(cluster, plan, driver),
            )

        told = await with_rows(work, write)
        if isinstance(told, Late):
            return Written(prepared=None, is_late=True)
        return Written(prepared=told)

    async def _is_late(self, cluster: Cluster, plan: Plan, driver: Driver) -> bool:
        if self.once:
            return await is_late_for_single(cluster, self.options, driver)
        return await is_late_for_batch(cluster, self.options, driver, plan, self.identity.batch_id)

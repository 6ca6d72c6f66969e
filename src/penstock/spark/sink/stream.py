"""The sink of a streaming query, as Spark calls it. Which process calls what: see `driver`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.network.cluster import Cluster
from penstock.spark.batch_identity import BATCH_PROPERTY, QUERY_PROPERTY, RUN_PROPERTY
from penstock.spark.connection import run
from penstock.spark.sink.at_least_once import write_plainly
from penstock.spark.sink.columns import columns_of
from penstock.spark.sink.decision import Claim, Prepared
from penstock.spark.sink.decision_topic import Known
from penstock.spark.sink.driver import (
    CLAIMING_PARTITION,
    Plan,
    TaskOfBatch,
    claim_run,
    decide_batch,
    give_up_batch,
    is_late_for_batch,
    join_run,
    plan_batch,
)
from penstock.spark.sink.flows import is_decided
from penstock.spark.sink.names import TaskNumbers, first_attempt
from penstock.spark.sink.options import SinkMode, SinkOptions
from penstock.spark.sink.output_topics import need_output_topic
from penstock.spark.sink.record_change import Driver
from penstock.spark.sink.task import Late, Work, compute, numbers_of, with_rows, write_attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What a task tells the driver; nothing is prepared where there was nothing to write. What was
    `known` when the batch was planned is told by one task: it may name all tasks of another batch.
    """

    driver: Driver
    known: Known | None
    prepared: Prepared | None


class StreamSink(DataSourceStreamArrowWriter):
    """Made for each batch, and once more to end it: making it asks nobody anything."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.columns = columns_of(schema, topic=options.topic)
        self.sink = options.query_sink if options.mode is SinkMode.EXACTLY_ONCE else None
        self.plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a writer before its tasks begin, and nobody else does."""
        if self.sink is not None and self.plan is None:
            self.plan = run(plan_batch(self.options, self.sink)).for_tasks
        if self.sink is None and self.options.topic is not None:
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
        claim = Claim(
            query_id=_property(task, QUERY_PROPERTY),
            run_id=_property(task, RUN_PROPERTY),
            driver=self.plan.place,
        )
        batch_id = int(_property(task, BATCH_PROPERTY))
        return run(self._write(work, claim, batch_id, numbers_of(task)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.sink is None:
            return
        written = [one for one in messages if isinstance(one, Written)]
        assert len(written) == len(messages) > 0, messages
        driver = written[0].driver
        assert all(one.driver == driver for one in written), written
        prepared = [one.prepared for one in written if one.prepared is not None]
        known = next(one.known for one in written if one.known is not None)
        run(decide_batch(self.options, driver, known, batchId, prepared))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.sink is None:
            return
        told = [one.driver for one in messages if isinstance(one, Written)]
        run(give_up_batch(self.options, self.sink, told[0] if told else None, batchId))

    async def _write(self, work: Work, claim: Claim, batch_id: int, task: TaskNumbers) -> Written:
        plan = self.plan
        assert plan is not None
        driver = plan.driver(claim)
        of_batch = TaskOfBatch(batch_id=batch_id, partition=work.partition)
        await claim_run(self.options, plan, driver, of_batch)
        prepared = None
        if is_decided(claim, batch_id, plan.found):
            await compute(work)
        else:
            own = first_attempt(plan.sink, claim.run_id, batch_id, task, two_phase=plan.two_phase)

            async def write(cluster: Cluster, work: Work) -> Prepared | Late | None:
                await join_run(cluster, self.options, plan, driver, of_batch)
                return await write_attempt(
                    cluster,
                    work,
                    own,
                    two_phase=plan.two_phase,
                    is_late=lambda: is_late_for_batch(
                        cluster, self.options, driver, plan, batch_id
                    ),
                )

            written = await with_rows(work, write)
            prepared = written if isinstance(written, Prepared) else None
        known = plan.known if work.partition == CLAIMING_PARTITION else None
        return Written(driver=driver, known=known, prepared=prepared)


def _property(task: TaskContext, name: str) -> str:
    value = task.getLocalProperty(name)
    assert value is not None, f"Spark gives every task of a query its {name}"
    return value

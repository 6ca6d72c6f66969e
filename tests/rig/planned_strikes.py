"""The format "penstock" with strikes that stand in files: a job as it is can be struck.

A sink is known by its id, and is struck in the first batch that has rows and comes after the ones
that were struck before; so a query that is started again completes what it was killed in, goes on,
and is struck in something new. Beside that each task notes how much it was given to write.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow
from pyarrow import compute
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.spark.batch_identity import BATCH_PROPERTY
from penstock.spark.data_source import PenstockDataSource
from penstock.spark.sink import batch as batch_sink
from penstock.spark.sink import flows
from penstock.spark.sink import stream as stream_sink
from penstock.spark.sink.decision import Claim, Decided, SinkRecord
from penstock.spark.sink.record_change import Driver
from rig.spark_strikes import Strike, Where, struck

HOLD_SECONDS_MAX = 3_600.0  # other queries of the program come to their points meanwhile
PLAN, REACHED = "plan.json", ".reached"


class Plant(StrEnum):
    """Faults of the sink, to see that they are found. A batch that is repeated after a kill..."""

    REPEATS = "repeats"  # is written again, although it was decided
    LOSES = "loses"  # is taken for decided, although it was not


@dataclass(frozen=True, slots=True, kw_only=True)
class Strikes:
    """Of one sink."""

    folder: Path
    sink: str

    @property
    def struck_batch(self) -> int | None:
        """The last one."""
        marks = self._own.glob(f"*{REACHED}")
        return max((int(mark.name.split(".")[1]) for mark in marks), default=None)

    def order(self, where: Where | None, *, plant: Plant | None = None) -> None:
        """Where the next batch is struck; None: nowhere."""
        last = self.struck_batch
        plan = {"where": where, "after": -1 if last is None else last, "plant": plant}
        self._own.mkdir(parents=True, exist_ok=True)
        (self._own / PLAN).write_text(json.dumps(plan))

    def strike_in(self, batch: int) -> Strike | None:
        plan = self._plan()
        if plan is None or plan["where"] is None or batch <= int(str(plan["after"])):
            return None
        return Strike(
            where=Where(plan["where"]),
            batch=batch,
            folder=self._own,
            hold_seconds_max=HOLD_SECONDS_MAX,
        )

    def plant_in(self, batch: int) -> Plant | None:
        """Only what is repeated is written wrongly."""
        plan = self._plan()
        if plan is None or plan["plant"] is None or batch > int(str(plan["after"])):
            return None
        return Plant(plan["plant"])

    def note_bytes(self, batch: int, task: int, size_bytes: int) -> None:
        self._own.mkdir(parents=True, exist_ok=True)
        (self._own / f"task.{batch}.{task}.bytes").write_text(str(size_bytes))

    def task_bytes(self, batch: int) -> list[int]:
        """How much each task of a batch was given to write."""
        return [int(one.read_text()) for one in self._own.glob(f"task.{batch}.*.bytes")]

    @property
    def _own(self) -> Path:
        return self.folder / self.sink

    def _plan(self) -> dict[str, str | int | None] | None:
        try:
            text = (self._own / PLAN).read_text()
        except FileNotFoundError:
            return None
        plan: dict[str, str | int | None] = json.loads(text)
        return plan


class PlannedDataSource(PenstockDataSource):
    folder = ""  # of the strikes

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        inner = super().streamWriter(schema, overwrite)
        assert isinstance(inner, DataSourceStreamArrowWriter)
        return PlannedWriter(inner, self._strikes())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        inner = super().writer(schema, overwrite)
        assert isinstance(inner, DataSourceArrowWriter)
        return PlannedBatchWriter(inner, self._strikes(), batch=int(self._told()["batchid"]))

    def _strikes(self) -> Strikes:
        return Strikes(folder=Path(self.folder), sink=self._told()["sinkid"])

    def _told(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.options.items()}


def register(spark: SparkSession, folder: str) -> None:
    """Takes the place of the format "penstock" in what is started from now on."""

    class InThisFolder(PlannedDataSource):
        pass

    InThisFolder.folder = folder
    InThisFolder.cores = spark.sparkContext.defaultParallelism
    spark.dataSource.register(InThisFolder)


class PlannedBatchWriter(DataSourceArrowWriter):
    def __init__(self, inner: DataSourceArrowWriter, strikes: Strikes, *, batch: int) -> None:
        self._inner = inner
        self._strikes = strikes
        self._batch = batch

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        with faulty_task(self._strikes.plant_in(self._batch)):
            return self._inner.write(noted(iterator, self._strikes, self._batch))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_struck(self._strikes, self._batch, messages, lambda: self._inner.commit(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)


class PlannedWriter(DataSourceStreamArrowWriter):
    def __init__(self, inner: DataSourceStreamArrowWriter, strikes: Strikes) -> None:
        self._inner = inner
        self._strikes = strikes

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        batch = int(task.getLocalProperty(BATCH_PROPERTY) or "")
        with faulty_task(self._strikes.plant_in(batch)):
            return self._inner.write(noted(iterator, self._strikes, batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_struck(
            self._strikes, batchId, messages, lambda: self._inner.commit(messages, batchId)
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._inner.abort(messages, batchId)


def commit_struck(
    strikes: Strikes,
    batch: int,
    messages: Sequence[WriterCommitMessage | None],
    commit: Callable[[], None],
) -> None:
    """The driver's part of a batch."""
    has_rows = any(getattr(message, "prepared", None) is not None for message in messages)
    strike = strikes.strike_in(batch) if has_rows else None
    if strike is None:
        with faulty_decision(strikes.plant_in(batch)):
            commit()
        return
    with struck(strike):
        commit()
    if strike.where is Where.AFTER_ALL:
        strike.hold()


def noted(
    batches: Iterator[pyarrow.RecordBatch], strikes: Strikes, batch: int
) -> Iterator[pyarrow.RecordBatch]:
    task = TaskContext.get()
    assert task is not None
    size_bytes = 0
    for one in batches:
        for name in ("key", "value"):
            size_bytes += compute.sum(compute.binary_length(one.column(name))).as_py() or 0
        yield one
    strikes.note_bytes(batch, task.partitionId(), size_bytes)


@contextmanager
def faulty_task(plant: Plant | None) -> Iterator[None]:
    """Within it a task is wrong about what was decided: before it writes, and when it has."""

    def is_decided(claim: Claim, batch_id: int, planned: SinkRecord | None) -> bool:
        return plant is Plant.LOSES

    async def is_late(*batch: object) -> bool:
        return False

    known = batch_sink.is_decided, batch_sink.is_late_for_batch
    if plant is not None:
        batch_sink.is_decided = stream_sink.is_decided = is_decided
        batch_sink.is_late_for_batch = stream_sink.is_late_for_batch = is_late
    try:
        yield
    finally:
        batch_sink.is_decided, batch_sink.is_late_for_batch = known
        stream_sink.is_decided, stream_sink.is_late_for_batch = known


@contextmanager
def faulty_decision(plant: Plant | None) -> Iterator[None]:
    """Within it a batch is decided once more."""

    def decision(driver: Driver, last: SinkRecord | None, batch: Decided) -> SinkRecord:
        return SinkRecord(claim=driver.claim, decided=batch, is_done=False)

    known = flows._decision
    if plant is Plant.REPEATS:
        flows._decision = decision
    try:
        yield
    finally:
        flows._decision = known

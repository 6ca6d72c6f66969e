"""The format "struck": the sink of Penstock, with a place at which it stumbles, once.

Spark pickles it by name into the processes in which a sink works: tasks write in one, the driver's
part is carried out in others. In each of them only the place that is given is changed. Workers die
by themselves; the driver's part leaves a file that says it has come there, and waits for another.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.client.produce.batch_sender import Delivery
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.identity import TopicPartition
from penstock.spark.data_source import PenstockDataSource
from penstock.spark.sink.actions import Action, Commit, Write
from penstock.spark.sink.carry_out import Carrier
from rig.spark_query import is_first_attempt

NAME = "struck"
WHERE, BATCH, FOLDER = "strikeWhere", "strikeBatch", "strikeFolder"
LOOK_SECONDS = 0.05
WAIT_SECONDS_MAX = 300.0


class Where(StrEnum):
    WORKER_WRITING = "worker-writing"  # it dies with a part of its rows written
    WORKER_PREPARED = "worker-prepared"  # it dies when it has written all and told nobody
    TASK_SLOW = "task-slow"  # it waits with a part of its rows written
    BEFORE_DECISION = "before-decision"
    AFTER_DECISION = "after-decision"
    BETWEEN_COMMITS = "between-commits"
    AFTER_ALL = "after-all"  # and before Spark notes that the batch is committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    where: Where
    batch: int
    folder: Path
    hold_seconds_max: float = WAIT_SECONDS_MAX

    @property
    def options(self) -> dict[str, str]:
        """Of a writer of the format "struck"."""
        return {WHERE: self.where.value, BATCH: str(self.batch), FOLDER: str(self.folder)}

    @property
    def was_reached(self) -> bool:
        return (self.folder / self._mark).exists()

    def await_reached(self) -> None:
        await_file(self.folder / self._mark)

    def release(self) -> None:
        (self.folder / self._leave).touch()

    def hold(self) -> None:
        """What the one that is struck does: the first to come here waits for its release."""
        try:
            (self.folder / self._mark).touch(exist_ok=False)
        except FileExistsError:
            return
        await_file(self.folder / self._leave, seconds_max=self.hold_seconds_max)

    def die(self) -> None:
        (self.folder / self._mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)

    @property
    def _mark(self) -> str:
        return f"{self.where.value}.{self.batch}.reached"

    @property
    def _leave(self) -> str:
        return f"{self.where.value}.{self.batch}.released"


def await_file(path: Path, *, seconds_max: float = WAIT_SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds_max
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not appear"
        time.sleep(LOOK_SECONDS)


class StruckDataSource(PenstockDataSource):
    def __init__(self, options: dict[str, str]) -> None:
        left = {name.lower(): value for name, value in options.items()}
        where, batch, folder = (left.pop(name.lower()) for name in (WHERE, BATCH, FOLDER))
        self.strike = Strike(where=Where(where), batch=int(batch), folder=Path(folder))
        super().__init__(left)

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        inner = super().streamWriter(schema, overwrite)
        assert isinstance(inner, DataSourceStreamArrowWriter)
        return StruckWriter(inner, self.strike)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        inner = super().writer(schema, overwrite)
        assert isinstance(inner, DataSourceArrowWriter)
        return StruckBatchWriter(inner, self.strike, batch=int(self.options["batchid"]))


class StruckBatchWriter(DataSourceArrowWriter):
    """Of a batch that is written by itself: only the driver's part is struck."""

    def __init__(self, inner: DataSourceArrowWriter, strike: Strike, *, batch: int) -> None:
        self._inner = inner
        self._strike = strike
        self._batch = batch

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._inner.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._batch != self._strike.batch:
            self._inner.commit(messages)
            return
        with struck(self._strike):
            self._inner.commit(messages)
        if self._strike.where is Where.AFTER_ALL:
            self._strike.hold()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)


class StruckWriter(DataSourceStreamArrowWriter):
    def __init__(self, inner: DataSourceStreamArrowWriter, strike: Strike) -> None:
        self._inner = inner
        self._strike = strike

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        if not is_first_attempt(self._strike.batch):
            return self._inner.write(iterator)
        with torn(self._strike):
            message = self._inner.write(iterator)
        if self._strike.where is Where.WORKER_PREPARED:
            self._strike.die()
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId != self._strike.batch:
            self._inner.commit(messages, batchId)
            return
        with struck(self._strike):
            self._inner.commit(messages, batchId)
        if self._strike.where is Where.AFTER_ALL:
            self._strike.hold()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._inner.abort(messages, batchId)


@contextmanager
def torn(strike: Strike) -> Iterator[None]:
    """Within it a task is struck when the first of its record batches stands in the log."""
    sent = TransactionalProducer.send_batch

    async def send_batch(
        self: TransactionalProducer, place: TopicPartition, batch: bytearray
    ) -> Delivery:
        delivery = await sent(self, place, batch)
        await delivery
        if strike.where is Where.WORKER_WRITING:
            strike.die()
        if strike.where is Where.TASK_SLOW:
            strike.hold()
        return delivery

    TransactionalProducer.send_batch = send_batch  # type: ignore[method-assign] # in this process
    try:
        yield
    finally:
        TransactionalProducer.send_batch = sent  # type: ignore[method-assign] # as it was


@contextmanager
def struck(strike: Strike) -> Iterator[None]:
    """Within it the actions of the driver's part stumble where they are told to."""
    carried = Carrier.carry_out

    async def carry_out(self: Carrier, action: Action) -> object:
        written = action.record if isinstance(action, Write) else None
        decides = written is not None and written.unfinished is not None
        if decides and strike.where is Where.BEFORE_DECISION:
            strike.hold()
        answer = await carried(self, action)
        if decides and strike.where is Where.AFTER_DECISION:
            strike.hold()
        if isinstance(action, Commit) and strike.where is Where.BETWEEN_COMMITS:
            strike.hold()
        return answer

    Carrier.carry_out = carry_out  # type: ignore[method-assign] # in this process
    try:
        yield
    finally:
        Carrier.carry_out = carried  # type: ignore[method-assign] # as it was

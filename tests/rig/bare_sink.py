"""A sink as Spark calls it, in a process of its own and without a JVM: written to, held, killed."""

import multiprocessing
import pickle
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, StructField, StructType

from rig.planned_strikes import PlannedDataSource, Strikes

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
ARROW = pyarrow.schema([("key", pyarrow.binary()), ("value", pyarrow.binary())])
TASKS = 2
END_SECONDS_MAX = 120
LOOK_SECONDS = 0.02

Rows = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class BareSink:
    bootstrap: str
    topic: str
    sink: str
    folder: Path  # of its strikes

    @property
    def strikes(self) -> Strikes:
        return Strikes(folder=self.folder, sink=self.sink)

    def write(self, batches: Mapping[int, Rows]) -> None:
        """One run of a query, to its end."""
        life = self._life(batches)
        life.join(END_SECONDS_MAX)
        assert life.exitcode == 0, life.exitcode

    def die(self, batches: Mapping[int, Rows], *, batch: int) -> None:
        """One that is killed when it is held in that batch."""
        life = self._life(batches)
        try:
            deadline = time.monotonic() + END_SECONDS_MAX
            while self.strikes.struck_batch != batch:
                assert life.is_alive(), life.exitcode
                assert time.monotonic() < deadline, f"batch {batch} was not held"
                time.sleep(LOOK_SECONDS)
        finally:
            life.kill()
            life.join()

    def _life(self, batches: Mapping[int, Rows]) -> BaseProcess:
        life = multiprocessing.get_context("fork").Process(target=self._run, args=(batches,))
        life.start()
        return life

    def _run(self, batches: Mapping[int, Rows]) -> None:
        run_id = str(uuid.uuid4())
        for batch, rows in batches.items():
            source = PlannedDataSource(
                {
                    "kafka.bootstrap.servers": self.bootstrap,
                    "topic": self.topic,
                    "sinkid": self.sink,
                    "queryid": self.sink,
                    "runid": run_id,
                    "batchid": str(batch),
                }
            )
            source.folder = str(self.folder)
            # Spark pickles a writer, which plans the batch.
            writer = pickle.loads(pickle.dumps(source.writer(SCHEMA, overwrite=False)))
            pairs = list(rows.items())
            messages: list[WriterCommitMessage | None] = []
            for task in range(TASKS):
                enter_task(task, number=TASKS * batch + task)
                messages.append(writer.write(iter([record_batch(pairs[task::TASKS])])))
            writer.commit(messages)


def enter_task(partition: int, *, number: int) -> None:
    task = TaskContext._getOrCreate()
    task._partitionId = partition
    task._attemptNumber = 0
    task._taskAttemptId = number


def record_batch(pairs: Sequence[tuple[bytes, bytes]]) -> pyarrow.RecordBatch:
    keys, values = zip(*pairs, strict=True)
    return pyarrow.record_batch([list(keys), list(values)], schema=ARROW)

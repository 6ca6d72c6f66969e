"""A batch of Spark that is larger than one part of an upload, and waits in the middle of itself."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 10_000  # as Spark hands them on from step to step
NOISE_BYTES = 800  # of each row; noise does not shrink
BEFORE, AFTER = 3, 2  # so many times ROWS_AT_ONCE
WAIT_SECONDS_MAX = 120
COLUMNS = "id long, noise binary"


def rows_with_a_stop(spark: SparkSession, go_on: Path) -> DataFrame:
    """One task makes 40 MB of rows, and waits after 24 MB until there is a file `go_on`."""
    return spark.range(1, numPartitions=1).mapInArrow(_stopping(go_on), COLUMNS)


def row_ids() -> list[int]:
    return list(range((BEFORE + AFTER) * ROWS_AT_ONCE))


def _stopping(go_on: Path) -> Callable[..., Iterator[pyarrow.RecordBatch]]:
    def rows(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for _ in batches:
            pass
        for number in range(BEFORE + AFTER):
            if number == BEFORE:
                deadline = time.monotonic() + WAIT_SECONDS_MAX
                while not go_on.exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            yield _noisy(number * ROWS_AT_ONCE)

    return rows


def _noisy(first_id: int) -> pyarrow.RecordBatch:
    noise = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(NOISE_BYTES),
        ROWS_AT_ONCE,
        [None, pyarrow.py_buffer(os.urandom(NOISE_BYTES * ROWS_AT_ONCE))],
    )
    ids = pyarrow.array(range(first_id, first_id + ROWS_AT_ONCE), pyarrow.int64())
    return pyarrow.record_batch([ids, noise.cast(pyarrow.binary())], names=["id", "noise"])

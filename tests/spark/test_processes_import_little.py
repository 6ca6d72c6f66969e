"""A Python process that Spark starts imports what its question needs, and not the other half."""

import subprocess
import sys

import pytest

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1"}
PROGRAM = """
import sys
from pyspark.sql.types import StructType
from penstock.spark.data_source import PenstockDataSource
VALUES = StructType().add("value", "binary")
source = PenstockDataSource({options!r})
source.{question}
print(*(name for name in sys.modules if name.startswith("penstock.spark.{other}")))
"""


BUILDING = """
import sys
from penstock.model.identity import TopicPartition
from penstock.records.build import build_batch
from penstock.records.batch import whole_batches
from penstock.records.record import Record
from penstock.spark.source.columns import ColumnBuilder, schema_of
from penstock.spark.source.read import _payloads, joined

builder = ColumnBuilder(schema_of(include_headers=False))
[batch] = whole_batches(memoryview(bytes(build_batch([Record(b"k", b"v", (), 1)] * 2))))
place = TopicPartition("t", 3)
rows = [
    *joined(
        builder.build(place, list(_payloads(batch)), start=0, end=2, timestamp_type=0)
        for _ in range(2)
    )
]
rows = rows[0].slice(2)
print("pandas" in sys.modules, rows.num_rows)
"""


@pytest.mark.parametrize(
    ("question", "told", "other"),
    [
        ("reader(source.schema())", {"subscribe": "t"}, "sink"),
        ("streamReader(source.schema())", {"subscribe": "t"}, "sink"),
        ("writer(VALUES, False)", {"topic": "t"}, "source.batch"),
        ("streamWriter(VALUES, False)", {"topic": "t", "sinkId": "s"}, "source.batch"),
    ],
)
def test_a_reader_knows_nothing_of_writers_and_a_writer_nothing_of_readers(
    question: str, told: dict[str, str], other: str
) -> None:
    program = PROGRAM.format(options=OPTIONS | told, question=question, other=other)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_a_task_that_reads_does_not_import_pandas() -> None:
    """It would take longer than all else that a worker does for its first task."""
    done = subprocess.run(
        [sys.executable, "-c", BUILDING], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "2"]


WRITING = """
import pyarrow as pa
from penstock.records.compression import Codec
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.rows import BatchBuilder

numbers = pa.py_buffer(bytes(8))
texts = [None, pa.py_buffer(bytes(12)), pa.py_buffer(b"")]
rows = pa.RecordBatch.from_arrays(
    [
        pa.Array.from_buffers(pa.binary(), 2, texts),
        pa.Array.from_buffers(pa.int32(), 2, [None, numbers]),
    ],
    names=["value", "partition"],
)
columns = Columns(value=0, key=None, topic=None, partition=1, headers=None, timestamp=None)
builder = BatchBuilder(columns=columns, topic="t", codec=Codec.NONE, batch_bytes=1000, turn=0)
print(len(list(builder.batches(rows, {"t": 5}, now_ms=1))))
"""


def test_a_task_that_writes_imports_all_that_it_uses() -> None:
    done = subprocess.run([sys.executable, "-c", WRITING], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["1"], "")

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
from penstock.spark.source.read import _payloads

builder = ColumnBuilder(TopicPartition("t", 3), schema_of(include_headers=False))
[batch] = whole_batches(memoryview(bytes(build_batch([Record(b"k", b"v", (), 1)] * 2))))
rows = builder.build(list(_payloads(batch)), start=0, end=2, timestamp_type=0)
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

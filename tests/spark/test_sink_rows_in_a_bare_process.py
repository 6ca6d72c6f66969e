"""A task's process has imported nothing but what it asks for itself."""

import subprocess
import sys

import pyarrow as pa

PROGRAM = """
import sys
import pyarrow as pa
from penstock.records.compression import Codec
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.rows import BatchBuilder

[rows] = pa.ipc.open_stream(sys.stdin.buffer)
columns = Columns(value=0, partition=1)
builder = BatchBuilder(columns=columns, topic="t", codec=Codec.NONE, batch_bytes=1000, turn=0)
print(*(place for place, _ in builder.batches(rows, {"t": 3}, now_ms=0)))
"""


def test_rows_that_name_their_partition_are_encoded_by_what_the_sink_imports_itself() -> None:
    rows = pa.record_batch({"value": [b"a", b"b"], "partition": pa.array([2, 1], pa.int32())})
    sent = pa.BufferOutputStream()
    with pa.ipc.new_stream(sent, rows.schema) as stream:
        stream.write_batch(rows)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=sent.getvalue().to_pybytes(),
        capture_output=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == ([b"t-1", b"t-2"], b"")

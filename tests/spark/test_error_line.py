"""The last line that a failed program prints says what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.error_line import own_error_line
from rig.serve import ServedNode
from rig.small_spark import SMALL_SPARK

PROGRAM = """
import sys

import penstock.spark

bootstrap, folder = sys.argv[1:]
spark = penstock.spark.session(**{settings})
spark.stop()
spark = penstock.spark.session(**{settings})
rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) AS value")
writer = rows.writeStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
writer.options(topic="missing", checkpointLocation=folder).start().awaitTermination()
"""


@pytest.mark.timeout(600)
def test_failed_program_prints_the_line_of_its_error_last(node: ServedNode, folder: Path) -> None:
    program = PROGRAM.format(settings=SMALL_SPARK)
    ended = subprocess.run(
        [sys.executable, "-c", program, node.bootstrap, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 1
    assert "StreamingQueryException" in ended.stderr
    *before, last = ended.stderr.splitlines()
    assert last.startswith("penstock: topic missing does not exist")
    assert last not in before


def test_line_comes_once_when_another_hook_was_set_between_two_sessions() -> None:
    program = """
import sys

from penstock.spark.error_line import print_error_line_last

print_error_line_last()
ours = sys.excepthook
sys.excepthook = lambda *error: ours(*error)
print_error_line_last()
raise ValueError("penstock.spark.options.BadOption: there is no option subscrib")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert ended.stderr.splitlines().count("penstock: there is no option subscrib") == 1


def test_own_error_is_found_between_those_of_spark() -> None:
    told = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "data_source.py", line 55, in streamReader
penstock.spark.options.BadOption: there is no option subscrib: did you mean subscribe?

During handling of the above exception, another exception occurred:

UnboundLocalError: cannot access local variable 'reader'
 SQLSTATE: 38000
=== Streaming Query ===
"""
    assert own_error_line(told) == "there is no option subscrib: did you mean subscribe?"


def test_error_of_somebody_else_has_no_line() -> None:
    assert own_error_line("[DIVIDE_BY_ZERO] Division by zero\n SQLSTATE: 22012") is None

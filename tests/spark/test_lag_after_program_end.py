"""A program that ends right after its queries has committed their last progress."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.small_spark import SMALL_SPARK

pytestmark = pytest.mark.slow

ROWS = 15
ROWS_PER_BATCH = 7
PROGRAM_SECONDS_MAX = 300
PROGRAM = """
import json
import sys

import penstock.spark

told = json.loads(sys.argv[1])
spark = penstock.spark.session("job", **told["settings"])


def start(number, value="value", **trigger):
    rows = spark.readStream.format("penstock").options(**told["options"]).load().selectExpr(value)
    writer = rows.writeStream.format("noop").queryName(f"{told['name']}-{number}")
    writer = writer.option("checkpointLocation", f"{told['folder']}/{number}")
    return writer.trigger(**trigger).start() if trigger else writer.start()


"""
TWO_QUERIES_THAT_END = """
queries = [start(number, availableNow=True) for number in range(2)]
for query in queries:
    query.awaitTermination()
"""
TWO_QUERIES_OF_A_THREAD_THAT_GOES_ON = """
import threading


def run():
    for number in range(2):
        start(number, availableNow=True).awaitTermination()


def run_in_another_thread():
    threading.main_thread().join()
    threading.Thread(target=run).start()


threading.Thread(target=run_in_another_thread).start()
"""
STOPPED_SESSION = TWO_QUERIES_THAT_END + "spark.stop()\n"
ONE_FAILED_ONE_RUNNING = """
failing = "if(offset >= 10, raise_error('broken row'), value) AS value"
try:
    start(1, failing, availableNow=True).awaitTermination()
finally:
    start(0).processAllAvailable()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: int
    committed: list[int]  # of each query
    standard_error: str


Run = Callable[[str], Ended]


@pytest.fixture
def run_program(
    node: ServedNode, topic: Callable[..., str], confluent: ConfluentClient, folder: Path
) -> Run:
    """Runs a program over a topic of ROWS records, with queries 0 and 1."""

    def run(program: str) -> Ended:
        orders = topic()
        confluent.produce(orders, [Message(value=b"a")] * ROWS)
        told = {
            "settings": SMALL_SPARK,
            "name": orders,
            "folder": str(folder),
            "options": {
                "kafka.bootstrap.servers": node.bootstrap,
                "subscribe": orders,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(ROWS_PER_BATCH),
            },
        }
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM + program, json.dumps(told)],
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS_MAX,
        )
        return Ended(
            status=ended.returncode,
            committed=[committed(node, f"spark-{orders}-{query}", orders) for query in range(2)],
            standard_error=ended.stderr,
        )

    return run


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "program", [TWO_QUERIES_THAT_END, TWO_QUERIES_OF_A_THREAD_THAT_GOES_ON, STOPPED_SESSION]
)
def test_finished_queries_have_no_lag_when_their_program_has_ended(
    run_program: Run, program: str
) -> None:
    ended = run_program(program)
    assert ended.status == 0, ended.standard_error
    assert ended.committed == [ROWS, ROWS]
    assert_no_stack_trace_of_listeners(ended)
    assert "Traceback" not in ended.standard_error


@pytest.mark.timeout(600)
def test_failed_and_running_queries_have_committed_the_batches_that_they_finished(
    run_program: Run,
) -> None:
    ended = run_program(ONE_FAILED_ONE_RUNNING)
    assert ended.status == 1
    assert ended.committed == [ROWS, ROWS_PER_BATCH]
    assert_no_stack_trace_of_listeners(ended)


def assert_no_stack_trace_of_listeners(ended: Ended) -> None:
    assert "ListenerBus" not in ended.standard_error, ended.standard_error
    assert "py4j.Py4J" not in ended.standard_error, ended.standard_error


def committed(node: ServedNode, group: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    try:
        asked = [confluent_kafka.TopicPartition(topic, 0)]
        return int(consumer.committed(asked, timeout=120)[0].offset)
    finally:
        consumer.close()

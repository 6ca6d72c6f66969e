"""A batch that is decided already is computed once more, as Spark needs it, and not written again.

Spark repeats the last batch of a query when it has not noted its end. It then waits for each task
to have committed its part of the state, which a task does when all of its rows have been taken.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.spark_query import PENSTOCK, batch_writer

# Of two tasks: each has several of Spark's Arrow batches (10,000 rows), and more than sockets hold.
KEYS = 80_000
VALUE_BYTES = 600


@pytest.mark.timeout(300)
@pytest.mark.parametrize("by_batches", [False, True])
def test_stateful_query_goes_on_when_its_last_batch_was_decided_and_not_noted(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
    by_batches: bool,
) -> None:
    source, sink = topic(), topic(partitions=2)
    confluent.produce(source, [message(number) for number in range(KEYS)])
    brokers = {"kafka.bootstrap.servers": node.bootstrap}
    options = {**brokers, "topic": sink, "sinkId": f"repeated-{by_batches}"}

    def run() -> None:
        rows = spark.readStream.format(PENSTOCK).options(
            **brokers, subscribe=source, startingOffsets="earliest"
        )
        once = rows.load().select("key", "value").dropDuplicates(["key"])
        start(once, options, str(folder / "checkpoint"), by_batches=by_batches)

    run()
    for noted in (folder / "checkpoint" / "commits").glob("*0*"):
        noted.unlink()  # as if the driver had been killed before
    run()
    confluent.produce(source, [message(number) for number in range(KEYS - 1, KEYS + 1)])
    run()
    found = [record.key for record in committed_records(node.bootstrap, sink)]
    assert sorted(found) == sorted(message(number).key for number in range(KEYS + 1))


def start(rows: DataFrame, options: dict[str, str], checkpoint: str, *, by_batches: bool) -> None:
    """Raises what the query ended with."""
    writer = rows.writeStream.option("checkpointLocation", checkpoint)
    if by_batches:
        writer = writer.foreachBatch(batch_writer(PENSTOCK, options))
    else:
        writer = writer.format(PENSTOCK).options(**options)
    writer.trigger(availableNow=True).start().awaitTermination()


def message(number: int) -> Message:
    return Message(key=b"%d" % number, value=b"%d" % number * (VALUE_BYTES // 4))

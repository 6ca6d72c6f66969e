"""A single write that an operator gives up while it runs fails: it is all there or an error."""

import asyncio
import pickle
from collections.abc import Callable, Iterator

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.actions import Fence
from penstock.spark.sink.batch import BatchSink
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.errors import Superseded
from penstock.spark.sink.leftover_transactions import end_sink
from penstock.spark.sink.options import SinkOptions
from rig.bare_sink import enter_task
from rig.serve import ServedNode
from rig.sink_output import cluster_at, committed_values, none_left_open
from rig.sink_shell import DECISIONS

SCHEMA = StructType([StructField("value", BinaryType())])


@pytest.fixture(autouse=True)
def task_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process have a driver of Spark, which must not run in a task."""
    monkeypatch.setattr(TaskContext, "_taskContext", None)


def planned(node: ServedNode, topic: str) -> BatchSink:
    """A writer as Spark sends it to its tasks."""
    options = SinkOptions(
        connection=ConnectionOptions(bootstrap=node.bootstrap),
        topic=topic,
        decision_topic=DECISIONS,
    )
    sent: BatchSink = pickle.loads(pickle.dumps(BatchSink(options, SCHEMA, overwrite=False)))
    return sent


def written(writer: BatchSink, value: bytes, *, partition: int = 0) -> WriterCommitMessage:
    """A task, of which an earlier attempt may have left its transaction open."""
    enter_task(partition, number=partition)
    return writer.write(rows(value))


def rows(*values: bytes) -> Iterator[pyarrow.RecordBatch]:
    yield pyarrow.record_batch([pyarrow.array(values, pyarrow.binary())], names=["value"])


def test_write_whose_only_task_comes_late_fails(
    node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic()

    async def take_away() -> None:
        async with cluster_at(node.bootstrap) as cluster:
            await end_sink(DecisionTopic(cluster=cluster, name=DECISIONS), writer.sink)

    with none_left_open(node.bootstrap):
        writer = planned(node, name)
        written(writer, b"its executor dies before Spark has heard of it")
        asyncio.run(take_away())
        message = written(writer, b"row")
        with pytest.raises(Superseded, match="none of its rows are written"):
            writer.commit([message])
        writer.abort([message])
    assert committed_values(node.bootstrap, name) == []


def test_write_of_which_one_task_comes_late_is_not_decided_without_it(
    node: ServedNode, topic: Callable[..., str]
) -> None:
    """An operator has died on the way, and left no record."""
    name = topic()

    async def begin_to_take_away() -> None:
        async with cluster_at(node.bootstrap) as cluster:
            decisions = DecisionTopic(cluster=cluster, name=DECISIONS)
            async with Carrier(cluster, writer.sink, decisions, two_phase=True) as carrier:
                await carrier.carry_out(Fence())

    with none_left_open(node.bootstrap):
        writer = planned(node, name)
        messages = [written(writer, b"one")]
        asyncio.run(begin_to_take_away())
        messages.append(written(writer, b"other", partition=1))
        with pytest.raises(Superseded, match="none of its rows are written"):
            writer.commit(list(messages))
        writer.abort(list(messages))
    assert committed_values(node.bootstrap, name) == []


def test_write_of_which_no_task_has_rows_is_no_error(
    node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic()
    writer = planned(node, name)
    enter_task(0, number=0)
    writer.commit([writer.write(rows())])
    assert committed_values(node.bootstrap, name) == []

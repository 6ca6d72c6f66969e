"""What a task has written counts once, however many attempts there were and however they ended."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rig.numbered_rows import judge_topic, write_numbers
from rig.serve import ServedNode
from rig.spark_query import Carrying, carry
from rig.spark_strikes import NAME, Strike, StruckDataSource, Where

ROWS = 48
BATCH = 1


@pytest.fixture
def carrying(node: ServedNode, topic: Callable[..., str], folder: Path) -> Carrying:
    """Two batches of two tasks each, that write to two partitions each."""
    source, sink = topic(partitions=2), topic(partitions=2)
    write_numbers(node.bootstrap, source, range(ROWS))
    return Carrying(
        bootstrap=node.bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(folder / "checkpoint"),
        rows_per_batch=ROWS // 2,
        writer_options={"sinkId": sink},
    )


def test_rows_of_a_task_that_is_tried_again_are_there_once(
    spark: SparkSession, carrying: Carrying
) -> None:
    carry(spark, replace(carrying, failing_batch=BATCH))
    judged = judge_topic(carrying.bootstrap, carrying.sink, count=ROWS, ids=f"{carrying.sink}.")
    assert not judged.faults


@pytest.mark.parametrize("where", [Where.WORKER_WRITING, Where.WORKER_PREPARED])
def test_rows_of_a_worker_that_is_killed_are_there_once(
    spark: SparkSession, carrying: Carrying, folder: Path, where: Where
) -> None:
    spark.dataSource.register(StruckDataSource)
    strike = Strike(where=where, batch=BATCH, folder=folder)
    options = {**carrying.writer_options, **strike.options}
    carry(spark, replace(carrying, writer=NAME, writer_options=options))
    assert strike.was_reached
    judged = judge_topic(carrying.bootstrap, carrying.sink, count=ROWS, ids=f"{carrying.sink}.")
    assert not judged.faults

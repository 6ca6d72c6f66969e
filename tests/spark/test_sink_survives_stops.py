"""A query that is stopped in the middle of a batch leaves no transaction open behind it."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rig.numbered_rows import judge_topic
from rig.serve import ServedNode
from rig.spark_query import carry
from rig.spark_stops import (
    ROWS,
    all_at_once,
    look_until,
    open_of,
    record_of,
    stopped_query,
    to_be_stopped,
)

STOPS = 3  # bench/spark_soak.py has more


@pytest.mark.timeout(600)
def test_stopped_query_leaves_nothing_open_and_goes_on_where_it_was(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    carrying = to_be_stopped(node.bootstrap, folder, "stopped")
    for _ in range(STOPS):
        run_id = stopped_query(spark, carrying)
        look_until(partial(has_ended, node.bootstrap, run_id), "the end of the run")
        look_until(lambda: not open_of(node.bootstrap, "stopped"), "the end of its transactions")
    carry(spark, all_at_once(carrying))
    assert not judge_topic(node.bootstrap, carrying.sink, count=ROWS, ids="stopped.").faults


def has_ended(bootstrap: str, run_id: str) -> bool:
    """Whether tasks of the run that come later will see that it has."""
    record = record_of(bootstrap, "stopped")
    given_up = None if record is None else record.given_up
    return given_up is not None and (given_up.run_id, given_up.batch_id) == (run_id, None)

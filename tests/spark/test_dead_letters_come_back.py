"""One order in a hundred is malformed: the others pass, and these do after a repair."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from rig.malformed_orders import (
    FAULTS,
    Fault,
    Topics,
    first_version,
    judge,
    repaired_version,
    replay,
    run_pipeline,
    write_orders,
)
from rig.serve import ServedNode
from rig.sink_output import none_left_open

ORDERS = 5_000
MALFORMED = ORDERS // 100
FOR_GOOD = len([number for number in range(MALFORMED) if FAULTS[number % 4] is Fault.CUT])


def test_good_orders_pass_once_and_bad_ones_once_they_are_understood(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str], folder: Path
) -> None:
    topics = Topics(orders=topic(partitions=2), shares=topic(partitions=2), dead=topic())
    write_orders(node.bootstrap, topics.orders, ORDERS)
    place = {"folder": folder / "checkpoint", "rows_at_once": ORDERS // 2}

    with none_left_open(node.bootstrap):
        run_pipeline(spark, node.bootstrap, topics, first_version(topics), **place)
        before = judge(node.bootstrap, topics, ORDERS, repaired=False)
        assert (before.shares, before.letters, before.faults) == (ORDERS - MALFORMED, MALFORMED, 0)
        assert set(before.reasons) == {fault.value for fault in Fault}

        assert replay(node.bootstrap, topics.dead) == MALFORMED
        run_pipeline(spark, node.bootstrap, topics, repaired_version(topics), **place)
        after = judge(node.bootstrap, topics, ORDERS, repaired=True)
        assert (after.shares, after.faults) == (ORDERS - FOR_GOOD, 0)
        assert after.attempts == {1: MALFORMED, 2: FOR_GOOD}

"""States that a sink writes are there once after kills at each point; with a fault they are not.

So what bench/stateful_ordeal.py finds good is good.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from rig.bare_sink import BareSink
from rig.numbered_rows import open_transactions
from rig.planned_strikes import Plant
from rig.serve import ServedNode
from rig.spark_strikes import Where
from rig.stateful.feeding import committed
from rig.stateful.ordeal import POINTS
from rig.stateful.truth import Record, Truth, Verdict

KEYS = 40
KILLS = 3
BATCHES = {batch: {b"key %d" % key: b"%d" % batch for key in range(KEYS)} for batch in range(KILLS)}
DECIDED = (Where.AFTER_DECISION, Where.BETWEEN_COMMITS, Where.AFTER_ALL)


@pytest.fixture
def judged(
    node: ServedNode, topic: Callable[..., str], folder: Path
) -> Callable[[Where, Plant | None], Verdict]:
    """What is found after kills in every batch, at that point."""

    def judge(where: Where, plant: Plant | None) -> Verdict:
        output = topic(partitions=2)
        sink = BareSink(bootstrap=node.bootstrap, topic=output, sink=output, folder=folder)
        for batch in BATCHES:
            sink.strikes.order(where, plant=plant)
            repeated = {batch - 1: BATCHES[batch - 1]} if batch else {}
            sink.die({**repeated, batch: BATCHES[batch]}, batch=batch)
        sink.strikes.order(None, plant=plant)
        sink.write({batch: BATCHES[batch]})
        truth = Truth()
        for states in BATCHES.values():
            truth.note_batch(states)
        left = [one for one in open_transactions(node.bootstrap) if one.startswith(f"{output}.")]
        found = (Record(key or b"", value) for key, value in committed(node.bootstrap, output))
        return truth.judge(found, left_open=len(left))

    return judge


@pytest.mark.parametrize("where", POINTS)
def test_states_are_there_once_after_kills_at_a_point(
    judged: Callable[[Where, Plant | None], Verdict], where: Where
) -> None:
    verdict = judged(where, None)
    assert verdict.is_good, verdict
    assert verdict.found == KEYS * KILLS


@pytest.mark.parametrize("where", DECIDED)
def test_a_batch_that_is_written_again_after_its_decision_is_found(
    judged: Callable[[Where, Plant | None], Verdict], where: Where
) -> None:
    verdict = judged(where, Plant.REPEATS)
    assert verdict.doubled == KEYS * KILLS, verdict


def test_a_batch_that_is_left_out_before_its_decision_is_found(
    judged: Callable[[Where, Plant | None], Verdict],
) -> None:
    verdict = judged(Where.BEFORE_DECISION, Plant.LOSES)
    assert verdict.missing == KEYS * KILLS, verdict

"""Partitions move between the brokers of a cluster while faults strike, and nothing is lost."""

import pytest

from penstock.metadata.controller import partition_change
from penstock.metadata.controller.assignment import Assignment
from penstock.metadata.controller.partition_change import _Change
from penstock.sim.cluster.run import ClusterOutcome, run_seed
from penstock.sim.cluster.scenario import draw, with_moves

pytestmark = pytest.mark.slow

SEEDS = 2


def run_with_moves(seed: int, *, nodes: int = 4, replicas: int = 2) -> ClusterOutcome:
    return run_seed(seed, scenario=with_moves(draw(seed, nodes=nodes, replicas=replicas)))


def moves(outcome: ClusterOutcome) -> int:
    """How often a partition was moved, or a move cancelled."""
    return sum(line.what.startswith("moves ") for line in outcome.trace.lines)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cluster_keeps_its_promises_while_partitions_move(seed: int) -> None:
    outcome = run_with_moves(seed)
    assert outcome.violation is None
    assert outcome.figures.acked > 100
    assert moves(outcome) > 10


def test_a_cluster_of_five_keeps_its_promises_while_partitions_move() -> None:
    outcome = run_with_moves(1, nodes=5, replicas=3)
    assert outcome.violation is None


@pytest.mark.alters_code
def test_a_reassignment_that_is_complete_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As soon as one of the target is in sync, all of it is taken for in sync."""

    def is_complete(self: _Change, assigned: Assignment, isr: tuple[int, ...]) -> bool:
        return assigned.is_changing and bool(set(assigned.target) & set(isr))

    monkeypatch.setattr(partition_change._Change, "_is_complete", is_complete)
    told = (run_with_moves(seed).violation for seed in range(SEEDS))
    found = next((violation for violation in told if violation is not None), "nothing")
    checks = ("electable:", "acks:", "lost records:", "offsets:", "watermark:", "replicas:")
    assert found.startswith(checks)

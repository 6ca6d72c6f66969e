"""Faults of machines on a system whose promise is known: kept without bugs, broken with each."""

from dataclasses import replace

import pytest

from penstock.sim.fault_plan import FaultLimits, FaultPlan, HostFaultKind, shrink
from penstock.sim.seed_figures import Worth, distribution
from rig.toy_register import LIMITS, Bug, simulate

SEEDS = 20
SEEDS_MAX = 100
POWER_LOSSES = replace(LIMITS, kinds=(HostFaultKind.POWER_LOSS,))


def first_failure(bug: Bug, limits: FaultLimits) -> int:
    """The first seed in which a planted bug is seen."""
    for seed in range(SEEDS_MAX):
        if simulate(seed, bug, limits=limits).violation is not None:
            return seed
    raise AssertionError(f"{bug} is not seen in {SEEDS_MAX} seeds")


def test_what_was_acked_is_read_under_all_kinds_of_fault() -> None:
    runs = [simulate(seed) for seed in range(SEEDS)]
    assert {seed: run.violation for seed, run in enumerate(runs) if run.violation} == {}
    figures = [run.figures for run in runs]
    worth = Worth(virtual_ms=5_000, leader_changes=0, acked=20)
    assert sum(worth.reached_by(one) for one in figures) > SEEDS // 2, distribution(figures, worth)


def test_a_seed_is_one_run() -> None:
    assert simulate(11).trace_hash == simulate(11).trace_hash != simulate(12).trace_hash


@pytest.mark.parametrize(
    ("bug", "limits"),
    [
        (Bug.ACK_BEFORE_SYNC, POWER_LOSSES),
        (Bug.ACK_WITHOUT_BACKUP, LIMITS),
        (Bug.ONE_BACKUP_READ, LIMITS),
    ],
    ids=lambda given: given.name if isinstance(given, Bug) else "",
)
def test_a_planted_bug_is_seen(bug: Bug, limits: FaultLimits) -> None:
    assert first_failure(bug, limits) < SEEDS_MAX


def test_a_write_that_is_not_synced_survives_a_kill() -> None:
    kills = replace(LIMITS, kinds=(HostFaultKind.KILL,))
    for seed in range(SEEDS):
        assert simulate(seed, Bug.ACK_BEFORE_SYNC, limits=kills).violation is None


def test_a_failing_seed_shrinks_to_the_faults_that_it_needs() -> None:
    bug, limits = Bug.ACK_WITHOUT_BACKUP, replace(LIMITS, faults_min=8)
    seed = first_failure(bug, limits)
    plan = simulate(seed, bug, limits=limits).plan

    def fails(smaller: FaultPlan) -> bool:
        return simulate(seed, bug, plan=smaller).violation is not None

    small = shrink(plan, fails)
    assert 1 <= len(small.faults) < len(plan.faults)
    assert fails(small)
    assert not any(fails(small.without(number)) for number in range(len(small.faults)))

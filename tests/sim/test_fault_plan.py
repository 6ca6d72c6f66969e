"""Plans of faults keep within what a scenario allows, can be read, and shrink."""

from random import Random

import pytest

from penstock.sim.fault_plan import (
    DISABLING,
    USUAL_KINDS,
    FaultLimits,
    FaultPlan,
    HostFaultKind,
    PlannedFault,
    draw_plan,
    most_disabled,
    shrink,
)

THREE = ("node-1", "node-2", "node-3")
FIVE = (*THREE, "node-4", "node-5")


def fault(number: int, *, kind: HostFaultKind = HostFaultKind.KILL) -> PlannedFault:
    return PlannedFault(
        kind=kind, start_ms=number, end_ms=number + 10, hosts=("node-1",), amount=0.25
    )


@pytest.mark.parametrize("hosts", [THREE, FIVE], ids=["three", "five"])
@pytest.mark.parametrize("disabled_max", [1, 2])
def test_no_more_machines_are_out_of_action_than_allowed(
    hosts: tuple[str, ...], disabled_max: int
) -> None:
    limits = FaultLimits(disabled_max=disabled_max, all_at_once=False, faults_max=40)
    reached = 0
    for seed in range(300):
        plan = draw_plan(Random(seed), hosts, limits)
        # Looked at every moment at which something changes, not by the rule that drew it.
        for moment in {one.start_ms for one in plan.faults}:
            out = [
                name
                for one in plan.faults
                if one.kind in DISABLING and one.start_ms <= moment < one.end_ms
                for name in one.hosts
            ]
            assert len(out) == len(set(out)), "struck twice"
            assert len(out) <= disabled_max
            reached = max(reached, len(out))
    assert reached == disabled_max


def test_all_machines_are_struck_at_once_now_and_then_and_then_by_nothing_else() -> None:
    together = 0
    for seed in range(300):
        plan = draw_plan(Random(seed), THREE, FaultLimits(faults_max=30))
        for one in plan.faults:
            if one.hosts == THREE:
                together += 1
                beside = [two for two in plan.faults if two is not one and two.overlaps(one)]
                assert not [two for two in beside if two.kind in DISABLING]
    assert together > 20


def test_every_fault_ends_before_the_quiet_time() -> None:
    limits = FaultLimits(first_ms=5_000, last_ms=40_000)
    for seed in range(200):
        plan = draw_plan(Random(seed), THREE, limits)
        assert all(5_000 <= one.start_ms < one.end_ms <= 40_000 for one in plan.faults)
        assert plan.quiet_from_ms <= plan.lasts_ms == 40_000


def test_all_kinds_are_drawn_and_one_seed_is_one_plan() -> None:
    drawn = {
        one.kind
        for seed in range(100)
        for one in draw_plan(Random(seed), THREE, FaultLimits()).faults
    }
    assert drawn == set(USUAL_KINDS)
    assert draw_plan(Random(7), THREE, FaultLimits()) == draw_plan(Random(7), THREE, FaultLimits())


def test_a_plan_is_printed_line_by_line() -> None:
    plan = FaultPlan(faults=(fault(1_000), fault(2_500, kind=HostFaultKind.PARTITION)))
    assert str(plan).splitlines() == [
        "  0     1.000 s to     1.010 s  kill                 0.250  node-1",
        "  1     2.500 s to     2.510 s  partition            0.250  node-1",
    ]
    assert plan.count_by_kind == {"kill": 1, "partition": 1}


def test_a_failing_plan_shrinks_to_the_faults_that_it_needs() -> None:
    plan = FaultPlan(faults=tuple(fault(number * 100) for number in range(12)))
    needed = {plan.faults[3], plan.faults[8]}
    tried: list[FaultPlan] = []

    def fails(smaller: FaultPlan) -> bool:
        tried.append(smaller)
        return needed <= set(smaller.faults)

    assert set(shrink(plan, fails).faults) == needed
    assert len(tried) < 30


def test_a_fault_that_another_made_superfluous_is_dropped_in_a_second_round() -> None:
    """Here the last can go only once the first is gone."""
    plan = FaultPlan(faults=tuple(fault(number * 100) for number in range(3)))
    first, _, last = plan.faults

    def fails(smaller: FaultPlan) -> bool:
        return first not in smaller.faults or last in smaller.faults

    assert shrink(plan, fails).faults == ()


def test_machines_out_of_action_are_counted_once_each() -> None:
    faults = [fault(0), fault(5, kind=HostFaultKind.PAUSE), fault(6, kind=HostFaultKind.SLOW_DISK)]
    assert most_disabled(faults) == 1

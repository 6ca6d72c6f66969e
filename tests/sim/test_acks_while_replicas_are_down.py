"""A replica that is down has what it had when its process ended, and no record that came later."""

from dataclasses import replace

import pytest

from penstock.sim.cluster.flaws import ClusterFlaw
from penstock.sim.cluster.run import run_seed
from penstock.sim.cluster.scenario import ClusterScenario, draw
from penstock.sim.fault_plan import FaultPlan, HostFaultKind, PlannedFault

pytestmark = pytest.mark.alters_code

LAG_MS = 2_500  # until a leader takes a follower for one that lags


def two_of_three_are_down(kind: HostFaultKind) -> ClusterScenario:
    """For long enough that the leader, left alone, would shrink its in-sync set to itself."""
    drawn = draw(1, nodes=3, plain=True)
    fault = PlannedFault(
        kind=kind, start_ms=3_000, end_ms=13_000, hosts=("node-2", "node-3"), amount=0.5
    )
    return replace(
        drawn,
        node_settings={**drawn.node_settings, "replica.lag.time.max.ms": str(LAG_MS)},
        plan=FaultPlan(faults=(fault,), lasts_ms=15_000),
        aimed=0.0,
        strike_kinds=(),
        power_lost_at_end=False,
    )


@pytest.mark.parametrize("kind", [HostFaultKind.KILL, HostFaultKind.POWER_LOSS])
def test_a_record_that_the_leader_alone_has_must_not_be_acked(kind: HostFaultKind) -> None:
    scenario = two_of_three_are_down(kind)
    found = run_seed(1, scenario=scenario, flaw=ClusterFlaw.CUT_OFF_LEADER_ACKS).violation
    assert found is not None
    assert found.startswith("acks:")


@pytest.mark.parametrize("kind", [HostFaultKind.KILL, HostFaultKind.POWER_LOSS])
def test_what_replicas_had_before_they_went_down_counts(kind: HostFaultKind) -> None:
    assert run_seed(1, scenario=two_of_three_are_down(kind)).violation is None

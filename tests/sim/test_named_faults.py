"""Kinds of fault are chosen by name, and no others strike."""

import pytest
from click.testing import CliRunner

from penstock.cli.sim import sim
from penstock.sim.cluster.run import run_seed as run_cluster_seed
from penstock.sim.cluster.scenario import draw as draw_cluster
from penstock.sim.cluster.scenario import fault_kinds
from penstock.sim.crash_points import draw_crash_point
from penstock.sim.fault_plan import HostFaultKind
from penstock.sim.scenario import FaultKind, draw


@pytest.mark.parametrize("kind", fault_kinds(nodes=3))
def test_a_plan_for_a_cluster_has_only_the_kinds_that_are_named(kind: HostFaultKind) -> None:
    for seed in range(20):
        scenario = draw_cluster(seed, nodes=3, kinds=(kind, HostFaultKind.RESET))
        assert {fault.kind for fault in scenario.plan.faults} <= {kind, HostFaultKind.RESET}
        assert set(scenario.strike_kinds) <= {kind, HostFaultKind.RESET}
        assert kind is HostFaultKind.POWER_LOSS or not scenario.power_lost_at_end


def test_a_node_has_only_the_faults_that_are_named() -> None:
    kinds = (FaultKind.POWER_LOSS, FaultKind.RESET)
    for seed in range(50):
        scenario = draw(seed, kinds, transactions=True)
        assert {fault.kind for fault in scenario.faults} <= set(kinds)


def test_a_crash_point_has_the_name_of_its_fault() -> None:
    found = {
        point.kind
        for seed in range(50)
        if (point := draw_crash_point(seed, draw(seed))) is not None
    }
    assert found == {FaultKind.KILL, FaultKind.POWER_LOSS}


def test_no_other_fault_strikes_a_cluster() -> None:
    outcome = run_cluster_seed(5, nodes=3, kinds=(HostFaultKind.PARTITION, HostFaultKind.PAUSE))
    assert outcome.violation is None
    assert set(outcome.figures.faults) <= {"partition", "pause"}


@pytest.mark.parametrize("command", ["run", "replay 1"])
def test_an_unknown_name_is_refused_with_those_that_are_known(command: str) -> None:
    asked = [*command.split(), "--nodes", "3", "--faults", "kill,thunder"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code == 2
    assert "--faults: there is no 'thunder' here, but: kill, power loss," in ran.output
    assert "wiped directory" not in CliRunner().invoke(sim, [*asked, "--replicas", "1"]).output
    assert "client crash" in CliRunner().invoke(sim, ["run", "--faults", "thunder"]).output


def test_names_may_have_dashes_instead_of_spaces() -> None:
    asked = ["replay", "3", "--faults", "slow-disk,Half Open"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code == 0, ran.output
    assert "no promise was broken" in ran.output
    faults = {line.split()[2] for line in ran.output.splitlines() if "  fault " in line}
    assert faults == {"slow", "half-open", "no"}  # "no more of them"

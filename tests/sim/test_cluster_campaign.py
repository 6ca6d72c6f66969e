"""`penstock sim run --nodes` tries many seeds of a cluster, adds up what happened, and replays."""

import json
import re

import pytest
from click.testing import CliRunner

from penstock.cli.sim import sim
from penstock.sim.cluster.run import run_seed
from penstock.sim.cluster.scenario import draw

pytestmark = pytest.mark.slow


def test_campaign_tells_how_much_its_seeds_went_through() -> None:
    asked = ["run", "--nodes", "3", "--seeds", "2", "--workers", "1"]
    ran = CliRunner().invoke(sim, [*asked, "--json"])
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)
    assert (figures["seeds"], figures["failed"], figures["counted"]) == (2, [], 2)
    assert figures["leader_changes"] >= 4
    assert figures["acked_operations"] >= 200
    assert figures["virtual_seconds"] >= 120


def test_campaign_prints_the_distribution_of_its_figures() -> None:
    ran = CliRunner().invoke(sim, ["run", "--nodes", "3", "--seeds", "1", "--workers", "1"])
    assert ran.exit_code == 0, ran.output
    assert "changes of leader" in ran.output
    assert "1 of 1 seeds count: at least 60 virtual seconds" in ran.output


def test_planted_bug_is_named_with_the_seeds_that_it_took() -> None:
    flaw = "reply-before-commit"
    asked = ["run", "--nodes", "3", "--seeds", "5", "--workers", "1", "--flaw", flaw]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code == 0, ran.output
    assert f"{flaw} was found by seed" in ran.output


def test_replay_shows_the_same_run_by_virtual_time() -> None:
    ran = CliRunner().invoke(sim, ["replay", "1", "--nodes", "3"])
    assert ran.exit_code == 0, ran.output
    assert "quorum role=leader" in ran.output
    assert "is active in epoch 1" in ran.output
    assert re.search("node-. leads: .*orders-0@0", ran.output)
    assert "no promise was broken" in ran.output
    assert "no more of them" in ran.output
    assert run_seed(1, nodes=3).trace.hash in ran.output


@pytest.mark.alters_code
def test_brief_replay_tells_who_led_what_which_faults_struck_and_which_check_failed() -> None:
    asked = ["replay", "0", "--nodes", "3", "--flaw", "ack-before-replication", "--brief"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code != 0
    assert "faults planned" in ran.output
    assert "is active in epoch" in ran.output
    assert "INFO" not in ran.output
    assert "the promise that was broken: a record is acked once min.insync.replicas" in ran.output


def test_partitions_have_three_replicas_unless_another_number_is_asked_for() -> None:
    assert draw(1, nodes=3) == draw(1, nodes=3, replicas=3) != draw(1, nodes=3, replicas=1)
    ran = CliRunner().invoke(sim, ["replay", "1", "--nodes", "3", "--replicas", "1"])
    assert ran.exit_code == 0, ran.output
    assert run_seed(1, nodes=3, replicas=1).trace.hash in ran.output


def test_partitions_cannot_have_more_replicas_than_there_are_nodes() -> None:
    ran = CliRunner().invoke(sim, ["replay", "1", "--nodes", "3", "--replicas", "5"])
    assert ran.exit_code == 2
    assert "--replicas 5 needs as many nodes: there are 3" in ran.output


@pytest.mark.parametrize("command", [["run", "--seeds", "1"], ["replay", "1"]])
def test_options_of_clusters_need_a_cluster(command: list[str]) -> None:
    for option in ("--flaw never-unfenced", "--replicas 3"):
        ran = CliRunner().invoke(sim, [*command, *option.split()])
        assert ran.exit_code == 2
        assert f"{option} is for clusters: give --nodes" in ran.output

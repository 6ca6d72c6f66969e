"""`penstock sim replication` tries many seeds, adds up what happened, and can be replayed."""

import json

from click.testing import CliRunner

from penstock.cli.sim import sim
from penstock.sim.replication.campaign import ReplicationTally, replication_verdict
from penstock.sim.replication.flaws import ReplicationFlaw


def test_campaign_counts_faults_leaders_and_records() -> None:
    ran = CliRunner().invoke(sim, ["replication", "--seeds", "6", "--workers", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)
    assert figures["seeds"] == 6
    assert figures["failed"] == []
    assert figures["leaders"] > 6
    assert figures["acked_records"] > 0
    assert figures["truncations"] > 0
    assert figures["faults"]["power loss"] > 0
    assert figures["virtual_seconds"] >= 6 * 4


def test_planted_bug_is_named_with_the_seeds_that_it_took() -> None:
    asked = ["replication", "--seeds", "10", "--workers", "1", "--flaw", "ack-before-replication"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code == 0, ran.output
    assert "ack-before-replication was found by seed" in ran.output


def test_replay_shows_what_happened_and_why_the_seed_failed() -> None:
    flaw = ReplicationFlaw.EPOCH_KEPT_BY_NEW_INCARNATION
    failed = next(
        verdict
        for seed in range(20)
        if (verdict := replication_verdict(seed, flaw=flaw)).violation is not None
    )
    asked = ["replication-replay", str(failed.seed), "--flaw", flaw.value]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code != 0
    assert "leads in epoch" in ran.output
    assert failed.violation in str(ran.exception)


def test_figures_add_up() -> None:
    tally = ReplicationTally()
    for seed in range(3):
        tally.add(replication_verdict(seed))
    assert (tally.seeds, tally.failed) == (3, [])
    assert tally.calm_ms_max > 0

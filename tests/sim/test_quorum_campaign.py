"""`penstock sim quorum` tries many seeds, adds up what happened, and can be replayed."""

import json

from click.testing import CliRunner

from penstock.cli.sim import sim
from penstock.sim.quorum.campaign import Tally, verdict_of
from penstock.sim.quorum.flaws import Flaw


def test_campaign_counts_faults_leaders_and_records() -> None:
    ran = CliRunner().invoke(sim, ["quorum", "--seeds", "6", "--workers", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)
    assert figures["seeds"] == 6
    assert figures["failed"] == []
    assert figures["leaders"] > 0
    assert figures["acked_records"] > 0
    assert figures["faults"]["power loss"] > 0
    assert figures["virtual_seconds"] >= 6 * 20


def test_campaign_ends_when_its_minutes_are_over_or_its_seeds_are_done() -> None:
    asked = ["quorum", "--minutes", "10", "--seeds", "2", "--start", "5", "--workers", "1"]
    ran = CliRunner().invoke(sim, [*asked, "--json"])
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)
    assert (figures["seeds"], figures["start"]) == (2, 5)
    asked = ["quorum", "--minutes", "0.02", "--workers", "1", "--json"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["failed"] == []


def test_planted_bug_is_named_with_the_seeds_that_it_took() -> None:
    asked = ["quorum", "--seeds", "40", "--workers", "1", "--flaw", "vote-not-synced"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code == 0, ran.output
    assert "vote-not-synced was found by seed" in ran.output


def test_replay_shows_who_became_what_and_why_the_seed_failed() -> None:
    failed = next(
        verdict
        for seed in range(200)
        if (verdict := verdict_of(seed, flaw=Flaw.VOTE_NOT_SYNCED)).violation is not None
    )
    asked = ["quorum-replay", str(failed.seed), "--flaw", "vote-not-synced"]
    ran = CliRunner().invoke(sim, asked)
    assert ran.exit_code != 0
    assert "becomes leader in epoch" in ran.output
    assert failed.violation in str(ran.exception)


def test_snapshots_that_were_installed_are_counted() -> None:
    tally = Tally()
    for seed in range(40):
        tally.add(verdict_of(seed))
    assert tally.snapshots_installed > 0
    assert tally.seeds == 40


def test_percentiles_of_the_time_to_a_leader() -> None:
    tally = Tally(calm_leader_ms=[5, 1, 3, 2, 4])
    assert [tally.leader_ms_percentile(percent) for percent in (50, 90, 100)] == [3, 4, 5]
    assert Tally().leader_ms_percentile(50) is None

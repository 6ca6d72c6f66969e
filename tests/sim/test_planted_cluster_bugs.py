"""Each planted bug is found by the checker that it is for. `docs/simulator.md` says how many seeds
of three nodes each takes; here the seed that is likely to find it is tried first. Bugs of the
metadata are looked for with one replica of each partition.
"""

from dataclasses import replace

import pytest

from penstock.sim.cluster.coordination_flaws import late_markers
from penstock.sim.cluster.flaws import COORDINATION, REPLICATION, ClusterFlaw
from penstock.sim.cluster.run import run_seed
from penstock.sim.cluster.scenario import draw, for_coordinators, for_generation_1

pytestmark = pytest.mark.alters_code

SEEDS_MAX = 10
LIKELY_SEED = {
    ClusterFlaw.REPLY_BEFORE_COMMIT: 0,
    ClusterFlaw.REPLY_BEFORE_IMAGE: 0,
    ClusterFlaw.IMAGE_BEFORE_COMMIT: 2,
    ClusterFlaw.IMAGE_BEFORE_CAUGHT_UP: 0,
    ClusterFlaw.METADATA_NOT_SYNCED: 5,
    ClusterFlaw.LEADER_EPOCH_KEPT: 4,
    ClusterFlaw.UNFENCED_BEFORE_CAUGHT_UP: 6,
    ClusterFlaw.NEVER_UNFENCED: 2,
    ClusterFlaw.FENCED_LEADER_SHOWN: 2,
    ClusterFlaw.ACK_BEFORE_REPLICATION: 0,
    ClusterFlaw.CUT_OFF_LEADER_ACKS: 2,
    ClusterFlaw.WATERMARK_FORGOTTEN: 3,
    ClusterFlaw.WIPED_TAKEN_FOR_CLEAN: 1,
    ClusterFlaw.PLACE_KEPT: 1,
    ClusterFlaw.ACK_BEFORE_SYNC: 37,
    ClusterFlaw.DIVERGENCE_NOT_TOLD: 26,
    ClusterFlaw.NEVER_JOINS: 0,
    ClusterFlaw.TAIL_CUT: 0,
    ClusterFlaw.LAST_BATCH_HIDDEN: 0,
    ClusterFlaw.SEGMENT_END_NOT_PASSED: 0,
    ClusterFlaw.DUPLICATE_TAKEN: 0,
    ClusterFlaw.ELIGIBLE_NOT_ELECTED: 0,
    ClusterFlaw.OPEN_TRANSACTION_READ: 0,
    ClusterFlaw.RESULT_LOST: 0,
    ClusterFlaw.OFFSETS_NOT_LOADED: 5,
    ClusterFlaw.REPLY_FORGOTTEN: 0,
    ClusterFlaw.MARKERS_NOT_RESUMED: 0,
    ClusterFlaw.MARKER_OF_ANOTHER_EPOCH: 0,
    ClusterFlaw.GUARD_DROPPED_EARLY: 63,
    ClusterFlaw.SEQUENCE_GAP_TAKEN: 0,
    ClusterFlaw.PARTITION_GIVEN_TWICE: 1,
    ClusterFlaw.ABORTED_NOT_TOLD: 3,
    ClusterFlaw.RECORDS_REVERSED: 0,
}
CHECKERS = {
    ClusterFlaw.REPLY_BEFORE_COMMIT: ("image", "lost operation"),
    ClusterFlaw.REPLY_BEFORE_IMAGE: ("image",),
    ClusterFlaw.IMAGE_BEFORE_COMMIT: ("images",),
    ClusterFlaw.IMAGE_BEFORE_CAUGHT_UP: ("electable", "lost records", "offsets"),
    ClusterFlaw.METADATA_NOT_SYNCED: ("restart", "metadata log", "electable"),
    ClusterFlaw.LEADER_EPOCH_KEPT: ("leader epochs",),
    ClusterFlaw.UNFENCED_BEFORE_CAUGHT_UP: ("registration",),
    ClusterFlaw.NEVER_UNFENCED: ("health",),
    ClusterFlaw.FENCED_LEADER_SHOWN: ("fenced leader",),
    ClusterFlaw.ACK_BEFORE_REPLICATION: ("acks", "electable"),
    ClusterFlaw.CUT_OFF_LEADER_ACKS: ("acks", "electable"),
    ClusterFlaw.WATERMARK_FORGOTTEN: ("watermark",),
    ClusterFlaw.WIPED_TAKEN_FOR_CLEAN: ("electable", "watermark"),
    ClusterFlaw.PLACE_KEPT: ("electable",),
    ClusterFlaw.ACK_BEFORE_SYNC: ("electable",),
    ClusterFlaw.DIVERGENCE_NOT_TOLD: ("replicas",),
    ClusterFlaw.NEVER_JOINS: ("health",),
    ClusterFlaw.TAIL_CUT: ("electable",),
    ClusterFlaw.LAST_BATCH_HIDDEN: ("lost records",),
    ClusterFlaw.SEGMENT_END_NOT_PASSED: ("readable",),
    ClusterFlaw.DUPLICATE_TAKEN: ("duplicates",),
    ClusterFlaw.ELIGIBLE_NOT_ELECTED: ("health",),
    ClusterFlaw.OPEN_TRANSACTION_READ: ("aborted read",),
    ClusterFlaw.RESULT_LOST: ("atomicity",),
    ClusterFlaw.OFFSETS_NOT_LOADED: ("transaction offsets",),
    ClusterFlaw.REPLY_FORGOTTEN: ("answers",),
    ClusterFlaw.MARKERS_NOT_RESUMED: ("stable offset",),
    ClusterFlaw.MARKER_OF_ANOTHER_EPOCH: ("aborted read",),
    ClusterFlaw.GUARD_DROPPED_EARLY: ("fencing",),
    ClusterFlaw.SEQUENCE_GAP_TAKEN: ("order",),
    ClusterFlaw.PARTITION_GIVEN_TWICE: ("two owners",),
    ClusterFlaw.ABORTED_NOT_TOLD: ("transactions",),
    ClusterFlaw.RECORDS_REVERSED: ("contents",),
}


@pytest.mark.parametrize("flaw", list(ClusterFlaw))
def test_a_planted_bug_is_found_by_its_checker(flaw: ClusterFlaw) -> None:
    seeds = (LIKELY_SEED[flaw], *range(SEEDS_MAX))
    replicas = 3 if flaw in REPLICATION or flaw in COORDINATION else 1
    told = (run_seed(seed, nodes=3, replicas=replicas, flaw=flaw).violation for seed in seeds)
    found = next((violation for violation in told if violation is not None), "nothing")
    assert found.startswith(tuple(f"{checker}:" for checker in CHECKERS[flaw]))


def test_offsets_that_a_new_coordinator_leaves_out_are_missed_outside_of_transactions() -> None:
    """By `commits`; where there are applications or members of groups, they notice first."""
    scenario = replace(for_coordinators(draw(5, nodes=3)), applications=None, groups=())
    violation = run_seed(5, scenario=scenario, flaw=ClusterFlaw.OFFSETS_NOT_LOADED).violation
    assert violation is not None
    assert violation.startswith("commits:")


def test_markers_that_come_late_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `marker-of-another-epoch` has besides its bug."""
    for owner, name, function in late_markers():
        monkeypatch.setattr(owner, name, function)
    scenario = for_generation_1(draw(0, nodes=3))
    assert run_seed(0, scenario=scenario).violation is None


def test_a_bug_is_planted_for_one_run_alone() -> None:
    flawed = run_seed(0, nodes=3, replicas=1, flaw=ClusterFlaw.REPLY_BEFORE_COMMIT)
    assert flawed.violation is not None
    assert run_seed(0, nodes=3, replicas=1).violation is None

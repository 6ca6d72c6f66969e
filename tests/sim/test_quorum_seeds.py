"""The quorum keeps its promises over seeds of crashes and bad networks, and the checks can fail."""

import pytest

from penstock.sim.quorum.flaws import Flaw
from penstock.sim.quorum.run import run_seed

# For each planted bug, seeds of which at least one finds it.
FOUND_BY = {
    Flaw.VOTE_NOT_SYNCED: range(10, 20),
    Flaw.TRUNCATION_SKIPPED: range(10),
    Flaw.WATERMARK_TOO_EARLY: range(20),
    Flaw.FETCH_BEFORE_SYNC: range(5),
    Flaw.OLD_EPOCH_COMMITTED: range(46, 56),
    Flaw.REFORMATTED_VOTER_COUNTED: range(10),
    Flaw.REFORMATTED_ACK_COUNTED: range(35, 50),
    Flaw.SECOND_CHANGE_TOO_EARLY: range(12),
    Flaw.CHANGE_BEFORE_OWN_COMMIT: range(12),
    Flaw.REMOVED_LEADER_COUNTED: range(10),
    Flaw.VOTERS_NOT_TAKEN_BACK: range(10),
    Flaw.SNAPSHOT_WITHOUT_EPOCH: range(20, 30),
    Flaw.SHORT_WAIT_TWICE: range(80, 90),  # candidates overrun each other only at times
}


# A candidate learns after a pause that it was elected; a leader with nothing to send is far away; a
# voter that is alone starts with a log that is not synced; one is elected as a sync ends; a disk is
# replaced while a change of the voters that was cut off may be back.
ONCE_FAILED = (426, 5203, 1600, 59674, 80045)


@pytest.mark.parametrize("seed", [*range(60), *ONCE_FAILED])
def test_no_promise_is_broken(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None


@pytest.mark.parametrize("flaw", list(FOUND_BY))
def test_planted_bug_is_found(flaw: Flaw) -> None:
    assert any(run_seed(seed, flaw=flaw).violation for seed in FOUND_BY[flaw])


def test_a_seed_runs_the_same_way_each_time() -> None:
    first, second = (run_seed(7, log_lines=True) for _ in range(2))
    assert (first.lines, first.figures) == (second.lines, second.figures)


def test_every_bug_that_can_be_planted_is_looked_for() -> None:
    assert set(FOUND_BY) == set(Flaw)

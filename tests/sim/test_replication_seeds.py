"""A replicated partition keeps its promises over seeds of faults, and the checks can fail.

`penstock sim replication --seeds N` has more.
"""

import pytest

from penstock.sim.replication.flaws import ReplicationFlaw
from penstock.sim.replication.run import run_seed

# For each planted bug, seeds of which at least one finds it, and what it is found by.
FOUND_BY = {
    ReplicationFlaw.ACK_BEFORE_REPLICATION: (range(2), "ack before replication"),
    ReplicationFlaw.ENDS_KEPT_OVER_EPOCH: (range(2, 5), "acked record would be lost"),
    ReplicationFlaw.EPOCHS_NOT_CUT: (range(2), "epoch list"),
    ReplicationFlaw.WIPED_TAKEN_FOR_CLEAN: (range(57, 60), "acked record"),
    ReplicationFlaw.EPOCH_KEPT_BY_NEW_INCARNATION: (range(2), "two leaders in epoch"),
    ReplicationFlaw.EPOCH_GIVEN_TWICE: (range(2), "two leaders ack in epoch"),
    ReplicationFlaw.ELIGIBLE_KEPT: (range(30, 33), "acked record would be lost"),
    ReplicationFlaw.TRUNCATION_SKIPPED: (range(2), ""),
    ReplicationFlaw.WATERMARK_TOO_EARLY: (range(3, 5), ""),
    ReplicationFlaw.WATERMARK_FORGOTTEN: (range(2), "watermark goes back for a reader"),
    ReplicationFlaw.SHRINK_BEFORE_CONFIRMED: (range(8, 11), "acked record would be lost"),
    ReplicationFlaw.SHRINK_BEFORE_SETTING: (range(35, 38), "acked record would be lost"),
    ReplicationFlaw.FETCH_BEFORE_SYNC: (range(2), "ack before replication"),
    ReplicationFlaw.NEVER_JOINS: (range(1), "not healed"),
}


# Seeds that have found something: all replicas are fenced when calm begins, and none of them has
# the records; records of the last leader fill the log of a follower up to the end of the new one's;
# records that were cut off are back after a power loss, among later ones; a leader learns that it
# was deposed, and that fewer in-sync replicas are enough, at the same time; a leader that was
# paused commits what its successor has lost with its power; a deposed leader follows one that has
# deleted all records, and so has nothing to compare with (two); a deletion that a kill has cut off
# is completed, and with it goes the last record of an epoch that no file names; one that stays away
# alone is in sync, as the sessions of the others end just then.
TELLING = (6200, 23926, 26647, 32548, 33763, 41504, 50259, 53422, 73652, 91617, 2045398, 3050424)


@pytest.mark.parametrize("seed", [*range(12), *TELLING])
def test_no_promise_is_broken(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None


@pytest.mark.parametrize("flaw", list(FOUND_BY))
def test_planted_bug_is_found(flaw: ReplicationFlaw) -> None:
    seeds, found = FOUND_BY[flaw]
    told = (run_seed(seed, flaw=flaw).violation or "" for seed in seeds)
    assert any(violation and found in violation for violation in told)


def test_a_seed_runs_the_same_way_each_time() -> None:
    first, second = (run_seed(7, log_lines=True) for _ in range(2))
    assert (first.lines, first.figures) == (second.lines, second.figures)


def test_every_bug_that_can_be_planted_is_looked_for() -> None:
    assert set(FOUND_BY) == set(ReplicationFlaw)

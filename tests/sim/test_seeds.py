"""Twenty simulations pass, and so does every seed that has ever found a bug.

Many more: `make soak`, or `penstock sim run --seeds N`.
"""

from dataclasses import replace

import pytest

from penstock.sim.run import run_seed
from penstock.sim.scenario import draw

SEEDS = 20
# Each of these broke a promise once; the commit that cured it says how.
FOUND_BUGS = (
    3,  # a power loss took a new data directory, whose name had not been synced
    25,
    440,  # a restart forgot all but the last batch of a producer, whose retry came to lie twice
    1320,
    3171,  # after a kill, records acked with fsync were not to be seen until the first sync
    4405,
)


@pytest.mark.parametrize("seed", FOUND_BUGS)
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    # Neither offsets nor transactions were there when these were found.
    assert run_seed(seed, replace(draw(seed, transactions=False), committers=0)).violation is None


def test_a_batch_that_a_full_disk_refused_is_not_overtaken_by_later_ones() -> None:
    assert run_seed(1565).violation is None


def test_a_decision_that_is_put_off_does_not_end_a_compiled_node() -> None:
    """Here the journal of a coordinator refuses what is due, for want of room."""
    assert run_seed(379).violation is None


def test_a_partition_that_nobody_leads_is_asked_about_with_patience() -> None:
    """Here a topic is made while the disk is full; a producer waits for its leader for 40 s."""
    outcome = run_seed(73, replace(draw(73, transactions=False), committers=0))
    assert outcome.violation is None
    assert outcome.steps < 50_000


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_no_promise_is_broken(first: int) -> None:
    violations = {seed: run_seed(seed).violation for seed in range(first, first + 10)}
    assert {seed: told for seed, told in violations.items() if told is not None} == {}


def test_records_expire_by_age_and_by_size() -> None:
    """Else the promises of retention would be kept by never being asked for."""
    by_age = by_size = False
    for seed in range(60):
        plans = {topic.name: topic for topic in draw(seed).topics}
        if all(p.retention_ms is None and p.retention_bytes is None for p in plans.values()):
            continue
        for line in run_seed(seed).lines:
            if line.who == "retention":
                plan = plans[line.what.partition("-")[0]]
                by_age |= plan.retention_bytes is None
                by_size |= plan.retention_ms is None
        if by_age and by_size:
            break
    assert by_age
    assert by_size


def test_a_synced_log_with_a_flipped_bit_may_refuse_to_open() -> None:
    """Seed 10687: the bit lies among deleted records, and nothing below a sync is cut off."""
    assert run_seed(10687, draw(10687, transactions=False)).violation is None

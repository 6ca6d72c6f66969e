"""A campaign runs every seed once, in processes of their own, as one process would."""

import pytest

from penstock.sim.campaign import campaign
from penstock.sim.run import run_seed
from penstock.sim.workers import over_seeds


def test_every_seed_has_the_verdict_that_it_has_alone() -> None:
    verdicts = sorted(campaign(range(4, 7), workers=2), key=lambda verdict: verdict.seed)
    assert [verdict.seed for verdict in verdicts] == [4, 5, 6]
    for verdict in verdicts:
        alone = run_seed(verdict.seed)
        assert (verdict.violation, verdict.lives, verdict.acks, verdict.virtual_ms) == (
            alone.violation,
            alone.lives,
            alone.acks,
            alone.virtual_ms,
        )


@pytest.mark.parametrize("count", [0, 1, 25])
def test_no_seed_is_left_out_or_run_twice(count: int) -> None:
    halves = over_seeds(range(100, 100 + count), float, module="builtins", workers=2)
    assert sorted(halves) == [float(seed) for seed in range(100, 100 + count)]

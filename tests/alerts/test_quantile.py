"""Quantiles are compared at the bounds of buckets, where nothing is estimated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alerts.quantile import quantile_at_least
from promql_values import Scrape, evaluate

BOUNDS = (1.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("part", "counts", "wanted"),
    [
        (0.99, (0, 0, 0, 0), None),
        (0.5, (10, 10, 10, 10), 0),  # the first bucket begins at 0
        (0.5, (0, 10, 10, 10), 1),
        (0.9, (50, 80, 100, 100), 2),
        (0.5, (50, 80, 100, 100), 0),  # half of them are below the first bound
        (0.51, (50, 80, 100, 100), 1),
        (0.99, (0, 0, 1, 1), 2),  # one observation alone
        (0.99, (98, 98, 98, 100), 4),  # beyond the last bound
        (1.0, (3, 5, 5, 5), 1),
    ],
)
def test_a_quantile_is_at_least_the_lower_bound_of_its_bucket(
    part: float, counts: tuple[int, ...], wanted: float | None
) -> None:
    assert quantile_at_least(part, bounds=BOUNDS, counts=counts) == wanted


STEPS = st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any)


@given(STEPS, st.floats(0.01, 1))
def test_as_many_observations_are_at_least_so_large(steps: list[int], part: float) -> None:
    counts = [sum(steps[: place + 1]) for place in range(len(steps))]
    found = quantile_at_least(part, bounds=BOUNDS, counts=counts)
    below = {0.0: 0, **dict(zip(BOUNDS, counts, strict=False))}
    assert found is not None
    assert below[found] < part * counts[-1]


@given(STEPS)
def test_prometheus_is_above_a_bound_exactly_where_it_is_reached(steps: list[int]) -> None:
    counts = [sum(steps[: place + 1]) for place in range(len(steps))]
    buckets = {
        frozenset({("le", bound)}): float(count)
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True)
    }
    scrapes = [Scrape(at_s=0, samples={"b": buckets})]
    [there] = evaluate("histogram_quantile(0.99, b)", scrapes, interval_s=60).values()
    found = quantile_at_least(0.99, bounds=BOUNDS, counts=counts)
    assert found is not None
    for bound in BOUNDS[:-1]:  # beyond the last one it says that one
        assert (there > bound) == (found >= bound)

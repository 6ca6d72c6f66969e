"""Quantiles are those that `histogram_quantile` of Prometheus gives for the same buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alerts.quantile import quantile

BOUNDS = (1.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("part", "counts", "wanted"),
    [
        (0.99, (0, 0, 0, 0), None),
        (0.5, (10, 10, 10, 10), 0.5),  # the first bucket begins at 0
        (0.5, (0, 10, 10, 10), 1.5),
        (0.9, (50, 80, 100, 100), 3.0),
        (0.5, (50, 80, 100, 100), 1.0),  # on a bound
        (0.99, (0, 0, 1, 1), 3.98),  # one observation alone
        (0.99, (98, 98, 98, 100), 4.0),  # beyond the last bound
        (1.0, (3, 5, 5, 5), 2.0),
    ],
)
def test_a_quantile_lies_within_its_bucket(
    part: float, counts: tuple[int, ...], wanted: float | None
) -> None:
    found = quantile(part, bounds=BOUNDS, counts=counts)
    assert found == (None if wanted is None else pytest.approx(wanted))


@given(
    st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any),
    st.floats(0.01, 1),
    st.floats(0.01, 1),
)
def test_a_larger_part_has_no_smaller_quantile(steps: list[int], one: float, other: float) -> None:
    counts = [sum(steps[: place + 1]) for place in range(len(steps))]
    low = quantile(min(one, other), bounds=BOUNDS, counts=counts)
    high = quantile(max(one, other), bounds=BOUNDS, counts=counts)
    assert low is not None
    assert high is not None
    assert 0 <= low <= high <= BOUNDS[-1]

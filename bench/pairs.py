"""The median of paired differences, with an interval that assumes nothing about how they spread."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

COVERAGE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianInterval:
    median: float
    low: float
    high: float
    coverage: float  # the chance that such an interval holds the true median; less than
    # COVERAGE where there are too few pairs for that


def median_interval(values: Sequence[float]) -> MedianInterval:
    """The sign test's interval: from the k-th smallest to the k-th largest, with the largest k for
    which at least `COVERAGE` remains. Five pairs or fewer are too few for 95 %.
    """
    assert values
    ordered = sorted(values)
    count = len(ordered)
    left_out, outside = 0, 2 * _up_to(0, count)
    while left_out + 1 < count / 2 and 1 - 2 * _up_to(left_out + 1, count) >= COVERAGE:
        left_out += 1
        outside = 2 * _up_to(left_out, count)
    return MedianInterval(
        median=statistics.median(ordered),
        low=ordered[left_out],
        high=ordered[count - 1 - left_out],
        coverage=max(1 - outside, 0.0),
    )


def _up_to(most: int, count: int) -> float:
    """The chance of at most so many heads when a fair coin is thrown `count` times."""
    return float(sum(math.comb(count, heads) for heads in range(most + 1)) / 2**count)

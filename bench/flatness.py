"""Whether a curve is flat: the last quarter of a soak against the second, and the curve drawn."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BARS = "▁▂▃▄▅▆▇█"
GROWTH_MAX = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatness:
    """Medians of two quarters; the first is left out, since a node warms up in it."""

    second_quarter: float
    last_quarter: float
    slack: float  # a growth that is too small to mean anything, in the curve's own unit

    @property
    def growth(self) -> float:
        return self.last_quarter / self.second_quarter - 1 if self.second_quarter else 0.0

    @property
    def is_flat(self) -> bool:
        grown = self.last_quarter - self.second_quarter
        return grown <= max(self.slack, GROWTH_MAX * self.second_quarter)


def flatness_of(curve: Sequence[float], *, slack: float) -> Flatness:
    assert len(curve) >= 4, "a curve has four quarters"
    quarter = len(curve) // 4
    return Flatness(
        second_quarter=statistics.median(curve[quarter : 2 * quarter]),
        last_quarter=statistics.median(curve[-quarter:]),
        slack=slack,
    )


def drawn(curve: Sequence[float], *, width: int = 72) -> str:
    """One bar for each stretch of the curve, as high as the most in it; the floor is the least."""
    width = min(width, len(curve))
    stretches = [
        curve[column * len(curve) // width : (column + 1) * len(curve) // width]
        for column in range(width)
    ]
    tops = [max(stretch) for stretch in stretches]
    low, high = min(curve), max(tops)
    span = (high - low) or 1
    return "".join(BARS[round((top - low) / span * (len(BARS) - 1))] for top in tops)

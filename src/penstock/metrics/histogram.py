"""How often a value was at most so much: a few counters, one of which is raised for each value.

Invariant: `counts` has one more entry than `bounds`, for what is above all of them.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from penstock.metrics.family import BUCKET, COUNT, SUM, Family, Kind, Sample


class Histogram:
    """Values without labels."""

    __slots__ = ("_bounds", "_counts", "_family", "_sum")

    def __init__(self, family: Family, bounds: Sequence[float]) -> None:
        assert family.kind is Kind.HISTOGRAM, family.name
        assert list(bounds) == sorted(set(bounds)), bounds
        self._family = family
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def note(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        """Buckets count what is at most their bound, those below included."""
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            yield Sample(self._family, total, (repr(float(bound)),), BUCKET)
        total += self._counts[-1]
        yield Sample(self._family, total, ("+Inf",), BUCKET)
        yield Sample(self._family, self._sum, (), SUM)
        yield Sample(self._family, total, (), COUNT)

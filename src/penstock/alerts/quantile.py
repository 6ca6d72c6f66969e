"""A quantile of a histogram, estimated as `histogram_quantile` of Prometheus does."""

from collections.abc import Sequence


def quantile(part: float, *, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The value that `part` of the observations do not exceed; None without observations.

    `counts` are cumulative: how many observations are at most the bound. The last count has no
    bound: it is that of all. Within a bucket observations are taken to be spread evenly, and the
    first one to begin at 0. What is beyond the last bound is estimated as that bound.
    """
    assert 0 < part <= 1, part
    assert len(counts) == len(bounds) + 1, (len(counts), len(bounds))
    if not counts[-1]:
        return None
    rank = part * counts[-1]
    below = 0
    lower = 0.0
    for bound, count in zip(bounds, counts[:-1], strict=True):
        if count >= rank:
            return lower + (bound - lower) * (rank - below) / (count - below)
        below, lower = count, bound
    return lower

"""Below which value no quantile of a histogram lies: what its buckets say without a guess."""

from collections.abc import Sequence


def quantile_at_least(
    part: float, *, bounds: Sequence[float], counts: Sequence[int]
) -> float | None:
    """The lower bound of the bucket in which the quantile lies: more than `1 - part` of the
    observations are at least so large. None without observations.

    `counts` are cumulative: how many observations are below the bound. The last count has no bound:
    it is that of all. `histogram_quantile` of Prometheus estimates a value within the bucket, so it
    is above a bound exactly where this is that bound or a larger one.
    """
    assert 0 < part <= 1, part
    assert len(counts) == len(bounds) + 1, (len(counts), len(bounds))
    if not counts[-1]:
        return None
    rank = part * counts[-1]
    lower = 0.0
    for bound, count in zip(bounds, counts[:-1], strict=True):
        if count >= rank:
            return lower
        lower = bound
    return lower

"""Errors and times of the produce requests of the last minutes, as figures of the alerts.

They are those that Prometheus would compute of what `/metrics` tells: each error counts, whoever is
to blame for it, and the time is read off the same buckets. It is the bound that one of 100 requests
has reached: a time within a bucket would be a guess, of up to twice or half the true one.

Requests with reports of alerts that this node refused are left out: else alerts whose topic cannot
be written would make another one fire by themselves.
"""

from collections.abc import Callable
from typing import Final

from penstock.alerts import rules
from penstock.alerts.quantile import quantile_at_least
from penstock.alerts.rule import WHOLE
from penstock.alerts.window import Window
from penstock.broker.metrics.requests import FINE, bounds_ms, cumulative_counts
from penstock.broker.request.request_stats import TOTAL, ApiTimes, RequestStats
from penstock.wire.api import ApiKey

BOUNDS_MS: Final = bounds_ms(FINE)
# Requests, errors, reports refused, one a bucket, and those of all buckets.
COUNTERS: Final = 3 + len(BOUNDS_MS) + 1
SLOWEST: Final = 0.99


class ProduceFigures:
    """`refused_reports`: how many batches for the topic of alerts this node has refused. It goes
    back when the topic is deleted.
    """

    def __init__(
        self,
        stats: RequestStats,
        *,
        refused_reports: Callable[[], int],
        window_ms: int,
        now_ms: int,
    ) -> None:
        self._stats = stats
        self._refused_reports = refused_reports
        self._refused_before = 0  # of them, at the last look
        self._refused = 0  # all of them
        self._window = Window(COUNTERS, length_ms=window_ms, now_ms=now_ms)

    def look(self, *, now_ms: int) -> dict[str, dict[str, float | None]]:
        """By rule. Without produce requests there are no errors, and no time."""
        requests, errors, reports, *times = self._window.look(self._counters(), now_ms=now_ms)
        found: dict[str, dict[str, float | None]] = {
            # The errors of requests that wait for acks come later than they do.
            rules.PRODUCE_ERRORS.name: {
                WHOLE: max(errors - reports, 0) / max(requests - reports, 1)
            },
            rules.PRODUCE_SLOW.name: {},
        }
        slowest_ms = quantile_at_least(SLOWEST, bounds=BOUNDS_MS, counts=times)
        if slowest_ms is not None:
            found[rules.PRODUCE_SLOW.name][WHOLE] = slowest_ms
        return found

    def _counters(self) -> tuple[int, ...]:
        stats, key = self._stats, ApiKey.PRODUCE
        errors = sum(count for (api_key, _), count in stats.errors.items() if api_key == key)
        times = stats.times.get(key) or ApiTimes()
        refused = self._refused_reports()
        grown = refused - self._refused_before
        self._refused += grown if grown >= 0 else refused  # that of a new topic begins at 0
        self._refused_before = refused
        counts = cumulative_counts(times, TOTAL, FINE)
        return (stats.counts[key].answered, errors, self._refused, *counts)

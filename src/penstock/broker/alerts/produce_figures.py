"""Errors and times of the produce requests of the last minutes, as figures of the alerts.

They are those that Prometheus would compute of what `/metrics` tells: each error counts, whoever is
to blame for it, and the time is estimated from the same buckets.
"""

from typing import Final

from penstock.alerts import rules
from penstock.alerts.quantile import quantile
from penstock.alerts.rule import WHOLE
from penstock.alerts.window import Window
from penstock.broker.metrics.requests import FINE, bounds_ms, cumulative_counts
from penstock.broker.request.request_stats import TOTAL, ApiTimes, RequestStats
from penstock.wire.api import ApiKey

BOUNDS_MS: Final = bounds_ms(FINE)
COUNTERS: Final = 2 + len(BOUNDS_MS) + 1  # requests, errors, one a bucket, and those of all buckets
SLOWEST: Final = 0.99


class ProduceFigures:
    def __init__(self, stats: RequestStats, *, window_ms: int, now_ms: int) -> None:
        self._stats = stats
        self._window = Window(COUNTERS, length_ms=window_ms, now_ms=now_ms)

    def look(self, *, now_ms: int) -> dict[str, dict[str, float | None]]:
        """By rule. Without produce requests there are no errors, and no time."""
        requests, errors, *times = self._window.look(self._counters(), now_ms=now_ms)
        found: dict[str, dict[str, float | None]] = {
            # The errors of requests that wait for acks come later than they do.
            rules.PRODUCE_ERRORS.name: {WHOLE: errors / max(requests, 1)},
            rules.PRODUCE_SLOW.name: {},
        }
        slowest_ms = quantile(SLOWEST, bounds=BOUNDS_MS, counts=times)
        if slowest_ms is not None:
            found[rules.PRODUCE_SLOW.name][WHOLE] = slowest_ms
        return found

    def _counters(self) -> tuple[int, ...]:
        stats, key = self._stats, ApiKey.PRODUCE
        errors = sum(count for (api_key, _), count in stats.errors.items() if api_key == key)
        times = stats.times.get(key) or ApiTimes()
        return (stats.counts[key].answered, errors, *cumulative_counts(times, TOTAL, FINE))

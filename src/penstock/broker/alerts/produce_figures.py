"""Errors and times of the produce requests of the last minutes, as figures of the alerts.

They are those that Prometheus would compute of what `/metrics` tells, and the time is read off the
same buckets. It is the bound that one of 100 requests has reached: a time within a bucket would be
a guess, of up to twice or half the true one.

Each error counts, whoever is to blame for it, but for refusals of authorization: what was refused
was not to be written, and anybody who may connect could make the alert fire and hide others behind
it. `DENIED` is what the rule of Prometheus leaves out, too.

Requests with reports of alerts that this node refused, or did not acknowledge in time, are left
out: else alerts whose topic cannot be written would make another one fire by themselves.
"""

from collections.abc import Callable
from typing import Final

from penstock.alerts import rules
from penstock.alerts.quantile import quantile_at_least
from penstock.alerts.rule import WHOLE
from penstock.alerts.window import Window
from penstock.broker.metrics.requests import FINE, bounds_ms, cumulative_counts
from penstock.broker.request.request_stats import TOTAL, ApiTimes, RequestStats
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey

BOUNDS_MS: Final = bounds_ms(FINE)
# Requests, errors, reports that failed, one a bucket, and those of all buckets.
COUNTERS: Final = 3 + len(BOUNDS_MS) + 1
SLOWEST: Final = 0.99
DENIED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class ProduceFigures:
    """`failed_reports`: how many batches for the topic of alerts this node has refused, or has not
    acknowledged. It goes back when the topic is deleted.
    """

    def __init__(
        self,
        stats: RequestStats,
        *,
        failed_reports: Callable[[], int],
        window_ms: int,
        now_ms: int,
    ) -> None:
        self._stats = stats
        self._failed_reports = failed_reports
        self._failed_before = 0  # of them, at the last look
        self._failed = 0  # all of them
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
        errors = sum(
            count
            for (api_key, code), count in stats.errors.items()
            if api_key == key and code not in DENIED
        )
        times = stats.times.get(key) or ApiTimes()
        failed = self._failed_reports()
        grown = failed - self._failed_before
        self._failed += grown if grown >= 0 else failed  # that of a new topic begins at 0
        self._failed_before = failed
        counts = cumulative_counts(times, TOTAL, FINE)
        return (stats.counts[key].answered, errors, self._failed, *counts)

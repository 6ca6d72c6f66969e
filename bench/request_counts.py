"""Requests of a node by API: as its metrics tell them, without those of the bench's own clients."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rig.scraping import scrape

REQUESTS = "kafka_network_requestmetrics_requests_total"
MILLISECONDS = "kafka_network_requestmetrics_totaltimems_sum"
SAMPLED = ("Produce", "Fetch")  # of these the node measures one in 64
STATISTICS_MS = 50
WAIT_SECONDS = 30


class OwnRequests:
    """What a client of librdkafka has sent, as it tells itself."""

    def __init__(self) -> None:
        self.settings = {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self._told}
        self._sent: Counter[str] = Counter()
        self._times_told = 0

    def sent(self, poll: Callable[[], object]) -> Counter[str]:
        """Up to now; `poll` lets the client tell."""
        first, deadline = self._times_told, time.monotonic() + WAIT_SECONDS
        while self._times_told < first + 2:  # what is told next may have been counted before
            assert time.monotonic() < deadline, "a client tells no statistics"
            poll()
        return self._sent

    def _told(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self._sent = sum((Counter(one["req"]) for one in brokers), Counter())
        self._times_told += 1


@dataclass(frozen=True, slots=True)
class Requests:
    """By API."""

    counts: dict[str, float]
    milliseconds: dict[str, float]  # of APIs that are measured with each request

    def since(self, earlier: "Requests", batches: int) -> "Requests":
        """For each of so many batches."""
        return Requests(
            _each(self.counts, earlier.counts, batches),
            _each(self.milliseconds, earlier.milliseconds, batches),
        )


def requests(url: str, own: Sequence[Counter[str]]) -> Requests:
    """Up to now, at the node that tells its metrics there."""
    told = scrape(url)
    counts = {
        api: count - sum(one[api] for one in own)
        for api, count in told.by(REQUESTS, "request").items()
    }
    times = told.by(MILLISECONDS, "request")
    return Requests(counts, {api: spent for api, spent in times.items() if api not in SAMPLED})


def _each(now: Mapping[str, float], before: Mapping[str, float], batches: int) -> dict[str, float]:
    return {api: (total - before.get(api, 0)) / batches for api, total in now.items()}

"""What a node tells at /metrics, read by the parsers of prometheus-client."""

import urllib.request
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from rig.cluster_questions import until

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
WAIT_SECONDS = 60
METRICS = "penstock metrics: "
Labels = frozenset[tuple[str, str]]


class Scraped:
    """One scrape. A name with labels has one value, or none."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = {family.name: family for family in families}
        self._values: dict[str, dict[Labels, float]] = {}
        for family in self.families.values():
            for sample in family.samples:
                values = self._values.setdefault(sample.name, {})
                labels = frozenset(sample.labels.items())
                assert labels not in values, (sample.name, labels)
                values[labels] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self._values[name][frozenset(labels.items())]

    def all(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        return ((dict(labels), value) for labels, value in self._values.get(name, {}).items())

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values of a name that are told apart by this label alone."""
        found = {labels[label]: value for labels, value in self.all(name)}
        assert len(found) == len(self._values.get(name, {})), name
        return found


def page(url: str, *, accept: str = "") -> tuple[str, str]:
    """The text, and what it says that it is."""
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as reply:
        return reply.read().decode("utf-8"), reply.headers["Content-Type"]


def scrape(url: str) -> Scraped:
    return Scraped(text_string_to_metric_families(page(url)[0]))


def scrape_open_metrics(url: str) -> Scraped:
    return Scraped(open_metrics_families(page(url, accept=OPEN_METRICS)[0]))


def scrape_until(url: str, is_so: Callable[[Scraped], bool]) -> Scraped:
    """The first scrape of which this is true."""
    last: list[Scraped] = []

    def look() -> bool:
        last[:] = [scrape(url)]
        return is_so(last[0])

    until(f"{url} tells what is waited for", look)
    return last[0]


def url_in(log: str) -> str:
    """Where a node says that it tells its metrics, in the latest of its starts."""
    lines = [line for line in log.splitlines() if line.startswith(METRICS)]
    return lines[-1].removeprefix(METRICS).strip()

"""The text of a scrape, by the library prometheus-client, which stands behind this module (ADR 44).

Loaded by a node that tells metrics. The library also tells of the process: memory, CPU time,
descriptors, garbage collection.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from penstock.metrics.family import BOUND, BUCKET, TOTAL, Family, Sample

PLAIN = "text/plain"
OPEN_METRICS = "application/openmetrics-text"
# What the library is told: it takes apart what a client sends without care for what may be in it.
ACCEPTED = {PLAIN: PLAIN, OPEN_METRICS: f"{OPEN_METRICS}; version=1.0.0"}


class Page(NamedTuple):
    text: bytes
    content_type: str


class Exposition:
    """`page` may run on a thread of its own: it looks at nothing of the node."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)
        self._process = CollectorRegistry()
        PlatformCollector(registry=self._process)
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    def page(self, samples: Sequence[Sample], accept: str) -> Page:
        """In a format that the client takes: Prometheus' own, or OpenMetrics."""
        encode, content_type = choose_encoder(ACCEPTED[chosen_format(accept)])
        metrics = _Collected([*self._metrics(samples), *self._process.collect()])
        return Page(encode(metrics), content_type)

    def _metrics(self, samples: Sequence[Sample]) -> list[Metric]:
        """Of every family, those without samples too."""
        metrics = {
            family.name: Metric(family.name.removesuffix(TOTAL), family.help, family.kind.value)
            for family in self._families
        }
        for family, value, values, suffix in samples:
            names = family.labels if suffix != BUCKET else (*family.labels, BOUND)
            metric = metrics.get(family.name)
            if metric is None:  # of clients, who name them
                title = family.name.removesuffix(TOTAL)
                metric = metrics[family.name] = Metric(title, family.help, family.kind.value)
            metric.add_sample(family.name + suffix, dict(zip(names, values, strict=True)), value)
        return list(metrics.values())


def chosen_format(accept: str) -> str:
    """Prometheus prefers OpenMetrics, and takes plain text. That costs half, and tells as much."""
    taken = {one.partition(";")[0].strip() for one in accept.split(",")}
    only_open_metrics = OPEN_METRICS in taken and not taken & {PLAIN, "text/*", "*/*"}
    return OPEN_METRICS if only_open_metrics else PLAIN


class _Collected(Collector):
    """What was collected already, as the library's encoders take it."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics

"""What became of the spans of this node's traces."""

from penstock.metrics.family import Source, Steps, counter, gauge
from penstock.tracing.span import SpanBuffer

SPANS = counter(
    "penstock_tracing_spans_total",
    "Spans of traces that were exported, whose export failed, or that were dropped since too many"
    " waited.",
    "outcome",
)
WAITING = gauge("penstock_tracing_spans_waiting", "Spans of traces that wait to be exported.")


def tracing_metrics(spans: SpanBuffer) -> Source:
    def samples() -> Steps:
        yield SPANS.sample(spans.exported, "exported")
        yield SPANS.sample(spans.failed, "failed")
        yield SPANS.sample(spans.dropped, "dropped")
        yield WAITING.sample(len(spans))

    return Source((SPANS, WAITING), samples)

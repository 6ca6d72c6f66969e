"""Spans to a receiver of OpenTelemetry, by OTLP over HTTP: the one module that imports the library.

Called on a thread of its own (`node/tracing`): an export may wait for its receiver. What else can
be set of an export (headers, certificates, compression) is in the library's own variables of the
environment, `OTEL_EXPORTER_OTLP_*`; so are attributes of the resource, `OTEL_RESOURCE_ATTRIBUTES`
and `OTEL_SERVICE_NAME`.

Spans are made as the library's values of ended spans, not by its tracer: that would give them ids
of its own, which other nodes do not know, and would do so on the loop.
"""

import logging
import threading
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from penstock.model.limit import TRACING_EXPORT_MS_MAX
from penstock.tracing import span
from penstock.tracing.span import Span

PATH = "v1/traces"  # where receivers listen unless told otherwise
SERVICE = "penstock"
UNKNOWN_SERVICE = "unknown_service"
SCOPE = InstrumentationScope(SERVICE)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
KINDS = {
    span.SpanKind.SERVER: SpanKind.SERVER,
    span.SpanKind.CONSUMER: SpanKind.CONSUMER,
    span.SpanKind.INTERNAL: SpanKind.INTERNAL,
}
AHEAD_US_OFF_MAX = 1_000  # less is a reading error: following it, parts of a span would overlap
READINGS = 5
UNSET = Status(StatusCode.UNSET)


class SpanExport:
    """`export` is called by one thread."""

    def __init__(self, endpoint: str, *, node_id: int, cluster_id: str, version: str) -> None:
        self._resource = _resource(
            {
                "service.version": version,
                "service.instance.id": f"{cluster_id}/{node_id}",
                "penstock.node.id": node_id,
                "penstock.cluster.id": cluster_id,
            }
        )
        self._exporter = OTLPSpanExporter(
            endpoint=with_path(endpoint), timeout=TRACING_EXPORT_MS_MAX / 1000
        )
        self._ahead_us = _ahead_us()
        self._reason = _LoggedReason()
        logging.getLogger(trace_exporter.__name__).addFilter(self._reason)

    def export(self, spans: Sequence[Span]) -> str | None:
        """Why the export failed; None when it did not."""
        ahead_us = _ahead_us()
        if abs(ahead_us - self._ahead_us) > AHEAD_US_OFF_MAX:  # the clock was set
            self._ahead_us = ahead_us
        made = [self._made(one) for one in spans]
        self._reason.listen()
        if self._exporter.export(made) is SpanExportResult.SUCCESS:
            return None
        return self._reason.first or "no reason given"

    def close(self) -> None:
        """By any thread: an export that waits for another try gives up."""
        self._exporter.shutdown()

    def ended(self) -> None:
        """Nothing is exported any more. For the exporting thread: its id may be used again."""
        logging.getLogger(trace_exporter.__name__).removeFilter(self._reason)

    def _made(self, one: Span) -> ReadableSpan:
        parent, ahead_us = one.parent_id, self._ahead_us
        return ReadableSpan(
            one.name,
            context=_context(one.trace_id, one.span_id, is_remote=False),
            parent=(
                None
                if parent is None
                else _context(one.trace_id, parent, is_remote=one.has_remote_parent)
            ),
            resource=self._resource,
            attributes=(
                one.attributes if one.error is None else {**one.attributes, "error.type": one.error}
            ),
            kind=KINDS[one.kind],
            status=UNSET if one.error is None else Status(StatusCode.ERROR, one.error),
            start_time=(one.start_us + ahead_us) * 1000,
            end_time=(one.end_us + ahead_us) * 1000,
            instrumentation_scope=SCOPE,
        )


def _ahead_us() -> int:
    """How far the wall clock is ahead of the monotonic clock, by which the node takes times: the
    shortest of some readings.
    """
    readings = []
    for _ in range(READINGS):
        before_ns, now_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after_ns - before_ns, now_ns - (before_ns + after_ns) // 2))
    return min(readings)[1] // 1000


class _LoggedReason(logging.Filter):
    """Keeps the first line that the library logs on the exporting thread: the result of an export
    has no reason. The lines are not logged; the node logs an event of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first: str | None = None
        self._thread_id: int | None = None

    def listen(self) -> None:
        self.first = None
        self._thread_id = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread_id:
            return True
        self.first = self.first or record.getMessage()
        return False


def with_path(endpoint: str) -> str:
    """PATH is added to an address that has no path."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else parts._replace(path=PATH).geturl()


def _resource(attributes: dict[str, str | int]) -> Resource:
    found = Resource.create()
    name = str(found.attributes.get(SERVICE_NAME, UNKNOWN_SERVICE))
    if name.startswith(UNKNOWN_SERVICE):
        attributes[SERVICE_NAME] = SERVICE
    return found.merge(Resource(attributes))


def _context(trace_id: bytes, span_id: bytes, *, is_remote: bool) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace_id, "big"),
        int.from_bytes(span_id, "big"),
        is_remote=is_remote,
        trace_flags=SAMPLED,
    )

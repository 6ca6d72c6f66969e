"""A receiver of traces by OTLP over HTTP, on a thread of its own, which keeps the spans."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from rig.cluster_questions import until

ERROR = 2  # of a status


@dataclass(frozen=True, kw_only=True)
class ReceivedSpan:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int]
    resource: dict[str, str | int]
    error: str | None

    @property
    def node(self) -> int:
        number = self.resource["penstock.node.id"]
        assert isinstance(number, int)
        return number


class TraceReceiver:
    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.paths: set[str] = set()
        self.answering = threading.Event()
        self.answering.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.paths.add(self.path)
                receiver.answering.wait()
                receiver.spans += spans_in(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="trace receiver")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def of(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of a trace by their starts; equal ones in the order in which they came."""
        found = [one for one in list(self.spans) if one.trace_id == trace_id]
        return sorted(found, key=lambda one: one.start_ns)

    def until(self, what: str, is_so: Callable[[list[ReceivedSpan]], bool]) -> list[ReceivedSpan]:
        until(what, lambda: is_so(list(self.spans)))
        return list(self.spans)

    def close(self) -> None:
        self.answering.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    made = TraceReceiver()
    try:
        yield made
    finally:
        made.close()


def spans_in(body: bytes) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            attributes=_attributes(list(span.attributes)),
            resource=_attributes(list(of_resource.resource.attributes)),
            error=span.status.message if span.status.code == ERROR else None,
        )
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _attributes(given: list[KeyValue]) -> dict[str, str | int]:
    return {
        one.key: one.value.int_value if one.value.HasField("int_value") else one.value.string_value
        for one in given
    }

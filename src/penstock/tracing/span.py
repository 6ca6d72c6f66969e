"""Spans that have ended, as values, and the bounded buffer in which they wait to be exported."""

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final

from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import TRACING_SPANS_WAITING_MAX

Attributes = Mapping[str, str | int]
NO_ATTRIBUTES: Final[Attributes] = {}


class SpanKind(Enum):
    """As OpenTelemetry has them."""

    SERVER = "server"
    CONSUMER = "consumer"
    INTERNAL = "internal"


@dataclass(slots=True, kw_only=True)
class Span:
    """Times are microseconds on the monotonic clock of the node."""

    name: str
    kind: SpanKind
    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    has_remote_parent: bool
    start_us: int
    end_us: int
    attributes: Attributes
    error: str | None = None

    def __post_init__(self) -> None:
        assert self.start_us <= self.end_us, self.name


class SpanBuffer:
    """The loop adds and a thread takes, without a lock: a deque does both safely, and each counter
    has one writer. A full buffer drops what is new.
    """

    __slots__ = ("_spans", "dropped", "exported", "failed")

    def __init__(self) -> None:
        self._spans: deque[Span] = deque()
        self.dropped = 0  # by the loop
        self.exported = 0  # by the thread
        self.failed = 0  # the same

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, span: Span) -> None:
        if len(self._spans) >= TRACING_SPANS_WAITING_MAX:
            self.dropped += 1
        else:
            self._spans.append(span)

    def take(self, count_max: int) -> list[Span]:
        return [self._spans.popleft() for _ in range(min(count_max, len(self._spans)))]

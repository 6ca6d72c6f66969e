"""Spans wait in their order and within a bound; what finds no room is counted."""

from penstock.model.limit import TRACING_SPANS_WAITING_MAX
from penstock.tracing.span import NO_ATTRIBUTES, Span, SpanBuffer, SpanKind


def span(number: int) -> Span:
    return Span(
        name="append",
        kind=SpanKind.INTERNAL,
        trace_id=bytes(16),
        span_id=bytes(8),
        parent_id=None,
        has_remote_parent=False,
        start_us=number,
        end_us=number,
        attributes=NO_ATTRIBUTES,
    )


def test_a_full_buffer_drops_what_is_new_and_counts_it() -> None:
    buffer = SpanBuffer()
    for number in range(TRACING_SPANS_WAITING_MAX + 5):
        buffer.add(span(number))
    assert (len(buffer), buffer.dropped) == (TRACING_SPANS_WAITING_MAX, 5)
    assert [one.start_us for one in buffer.take(3)] == [0, 1, 2]
    buffer.add(span(7))
    assert (len(buffer), buffer.dropped) == (TRACING_SPANS_WAITING_MAX - 2, 5)


def test_all_are_taken_when_there_are_few() -> None:
    buffer = SpanBuffer()
    assert buffer.take(10) == []
    buffer.add(span(1))
    assert len(buffer.take(10)) == 1
    assert len(buffer) == 0

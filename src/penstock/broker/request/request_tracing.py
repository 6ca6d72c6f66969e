"""Traces of produce requests: a span on the leader for each batch that is traced, and its parts.

    produce                                             from the receipt of the request to its reply
      queue | verify | append | replicas | send         verify: of transactions; replicas: of acks

The times are those of `request_stats`. Which batches are traced is known once they have an offset,
in the middle of a request, so the trace of the request at hand is put where its connection finds it
(`at_hand`): between that and the return to the connection there is no `await`. A request that waits
for its transaction to be verified appends later; it is given its trace before it waits.
"""

from penstock.broker.request.request_stats import TimedRequest
from penstock.model.error import ErrorCode
from penstock.model.offset import NO_OFFSET
from penstock.records.batch import BatchHeader
from penstock.replication.partition import Appended, Partition
from penstock.tracing.batch_trace import PRODUCE, BatchTrace, attributes_of, trace_of
from penstock.tracing.sampling import Sampling
from penstock.tracing.span import NO_ATTRIBUTES, Attributes, Span, SpanBuffer, SpanKind
from penstock.wire.codec import Buffer
from penstock.wire.header import RequestHeader
from penstock.wire.messages.produce import PartitionProduceResponse

DUPLICATE = "duplicate"
LOST = "connection closed"


class TracedBatch:
    """A batch of a request; `answer` says how its append ends, where there is one."""

    __slots__ = ("answer", "attributes", "error", "is_duplicate", "trace")

    def __init__(
        self,
        trace: BatchTrace,
        attributes: Attributes,
        answer: PartitionProduceResponse | None,
        *,
        is_duplicate: bool,
    ) -> None:
        self.trace = trace
        self.attributes = attributes
        self.answer = answer
        self.is_duplicate = is_duplicate
        self.error = ErrorCode.NONE

    @property
    def outcome(self) -> str | None:
        """The name of the error that was replied."""
        code = self.error if self.answer is None else ErrorCode(self.answer.error_code)
        return None if code is ErrorCode.NONE else code.name


class RequestTrace:
    """The batches of one request that are traced. Its spans are made when it has ended."""

    __slots__ = ("_spans", "appended_us", "batches", "verified_us")

    def __init__(self, spans: SpanBuffer) -> None:
        self._spans = spans
        self.batches: list[TracedBatch] = []
        self.verified_us: int | None = None  # of a request that was verified first
        self.appended_us: int | None = None  # the same

    def failed(self, code: ErrorCode) -> None:
        """An ack that did not come, of a request with one batch."""
        for batch in self.batches:
            batch.error = code

    def sent(self, timed: TimedRequest, sent_us: int) -> None:
        self._end(timed, sent_us, lost=None)

    def lost(self, timed: TimedRequest, now_us: int, *, is_answered: bool) -> None:
        """The connection has ended before the reply was sent."""
        if not is_answered:
            timed.ready_us = now_us
        self._end(timed, now_us, lost=LOST)

    def _end(self, timed: TimedRequest, end_us: int, *, lost: str | None) -> None:
        for batch in self.batches:
            # A batch that is sent again is a request of its own, in the same trace.
            correlation = batch.attributes["penstock.correlation.id"]
            suffix = f" {DUPLICATE} {correlation}" if batch.is_duplicate else ""
            trace = batch.trace
            produce_id = trace.span_id(PRODUCE + suffix) if suffix else trace.produce_id
            error = lost or batch.outcome
            self._spans.add(
                Span(
                    name=PRODUCE,
                    kind=SpanKind.SERVER,
                    trace_id=trace.trace_id,
                    span_id=produce_id,
                    parent_id=trace.parent_id,
                    has_remote_parent=True,
                    start_us=timed.received_us,
                    end_us=end_us,
                    attributes=batch.attributes,
                    error=error,
                )
            )
            for name, start_us, until_us in self._parts(timed, end_us):
                self._spans.add(
                    Span(
                        name=name,
                        kind=SpanKind.INTERNAL,
                        trace_id=trace.trace_id,
                        span_id=trace.span_id(name + suffix),
                        parent_id=produce_id,
                        has_remote_parent=False,
                        start_us=start_us,
                        end_us=until_us,
                        attributes=NO_ATTRIBUTES,
                    )
                )

    def _parts(self, timed: TimedRequest, end_us: int) -> list[tuple[str, int, int]]:
        parts = [("queue", timed.received_us, timed.started_us)]
        verified_us, appended_us = self.verified_us, self.appended_us
        if verified_us is None or appended_us is None:
            appended_us = timed.handled_us
            parts.append(("append", timed.started_us, appended_us))
        else:
            parts.append(("verify", timed.started_us, verified_us))
            parts.append(("append", verified_us, appended_us))
        if timed.ready_us > appended_us:
            parts.append(("replicas", appended_us, timed.ready_us))
        if end_us > timed.ready_us:
            parts.append(("send", timed.ready_us, end_us))
        return parts


class RequestTracing:
    """One for all listeners of a node. A connection calls `begin` before each produce request, and
    then reads `at_hand` and `started_us`.
    """

    __slots__ = ("_sampling", "_spans", "at_hand", "started_us")

    def __init__(self, sampling: Sampling, spans: SpanBuffer) -> None:
        self._sampling = sampling
        self._spans = spans
        self.at_hand: RequestTrace | None = None  # None: no batch of the request is traced
        self.started_us = 0

    def is_sampled(self, partition: Partition, appended: Appended) -> bool:
        if appended.base_offset == NO_OFFSET:
            return False  # its trace is named by its offset
        log = partition.log
        return self._sampling.is_sampled(
            log.topic_id, log.partition.partition, appended.base_offset
        )

    def begin(self, started_us: int) -> None:
        self.at_hand = None
        self.started_us = started_us

    def begin_late(self) -> RequestTrace:
        """The request at hand may append after a wait."""
        trace = self.at_hand = RequestTrace(self._spans)
        return trace

    def note(
        self,
        partition: Partition,
        appended: Appended,
        records: Buffer | None,
        header: RequestHeader,
        *,
        acks: int,
        answer: PartitionProduceResponse | None = None,
        late: RequestTrace | None = None,
    ) -> None:
        """A batch that is sampled was appended; `late` by a request that has waited."""
        assert records is not None, "nothing was appended"
        batch = memoryview(records)
        name = partition.name
        trace = trace_of(
            batch,
            topic_id=partition.topic_id,
            partition=name.partition,
            base_offset=appended.base_offset,
            leader_epoch=partition.leader_epoch,
        )
        if trace is None:
            return
        request = late or self.at_hand
        if request is None:
            request = self.at_hand = RequestTrace(self._spans)
        attributes = attributes_of(BatchHeader(batch), name, appended.base_offset)
        attributes["penstock.acks"] = acks
        attributes["penstock.correlation.id"] = header.correlation_id
        if header.client_id is not None:
            attributes["messaging.client.id"] = header.client_id
        if appended.is_duplicate:
            attributes["penstock.duplicate"] = 1
        request.batches.append(
            TracedBatch(trace, attributes, answer, is_duplicate=appended.is_duplicate)
        )

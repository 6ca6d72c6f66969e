"""Traces of followers: a span for each traced batch, from the receipt of its records to the append.

The batches are those that the leader traces (`tracing/sampling`): no markers of transactions, no
internal topics. A follower that catches up makes no spans for batches below the leader's high
watermark: they were acknowledged without it.
"""

import struct
from typing import Final

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.records.batch import BatchHeader
from penstock.records.layout import MAGIC_V2, OVERHEAD_BYTES
from penstock.replication.follower import Follower
from penstock.tracing.batch_trace import attributes_of, trace_of
from penstock.tracing.sampling import Sampling
from penstock.tracing.span import Span, SpanBuffer, SpanKind

REPLICATE: Final = "replicate"
_START: Final = struct.Struct(">qi")  # base offset, size of what follows
_START_BYTES: Final = _START.size


class ReplicaTracing:
    """One for all fetchers of a node."""

    __slots__ = ("_node_id", "_sampling", "_spans")

    def __init__(self, sampling: Sampling, spans: SpanBuffer, node_id: NodeId) -> None:
        self._sampling = sampling
        self._spans = spans
        self._node_id = node_id

    def appended(
        self,
        follower: Follower,
        records: memoryview,
        *,
        from_offset: Offset,
        high_watermark: int,
        received_us: int,
        appended_us: int,
    ) -> None:
        """The log has grown from `from_offset` by these records, as far as they are whole."""
        if follower.is_internal:
            return
        log = follower.log
        index = log.partition.partition
        first_offset = max(from_offset, high_watermark)
        position = 0
        while position + _START_BYTES <= len(records):
            base_offset, length = _START.unpack_from(records, position)
            end = position + length + OVERHEAD_BYTES
            if base_offset >= log.end_offset or length <= 0:
                return
            if base_offset >= first_offset and self._sampling.is_sampled(
                log.topic_id, index, base_offset
            ):
                self._note(follower, records[position:end], received_us, appended_us)
            position = end

    def _note(
        self, follower: Follower, batch: memoryview, received_us: int, appended_us: int
    ) -> None:
        header = BatchHeader(batch)
        if header.magic != MAGIC_V2 or header.is_control:
            return
        trace = trace_of(
            batch,
            topic_id=follower.topic_id,
            partition=follower.name.partition,
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
        )
        if trace is None:
            return
        self._spans.add(
            Span(
                name=REPLICATE,
                kind=SpanKind.CONSUMER,
                trace_id=trace.trace_id,
                span_id=trace.span_id(f"{REPLICATE} {self._node_id}"),
                parent_id=trace.produce_id,
                has_remote_parent=True,
                start_us=received_us,
                end_us=appended_us,
                attributes=attributes_of(header, follower.name, header.base_offset),
            )
        )

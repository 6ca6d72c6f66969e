"""To which trace a batch belongs, and the ids of its spans: the same on every node.

The trace is the producer's, where the first record of the batch names one, and else one of the
batch's own. Ids that nobody names are hashes of what leader and followers know of the batch: the id
of its topic, its partition, its base offset, and the leader epoch, since after an unclean election
another batch may stand at the same offset. So a follower knows the id of the leader's span.
"""

import struct
from hashlib import blake2b
from typing import Final

from penstock.model.identity import TopicPartition
from penstock.records.batch import BatchHeader
from penstock.tracing.traceparent import traceparent_of

TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8
PRODUCE: Final = "produce"
_PLACE: Final = struct.Struct(">iqi")  # partition, base offset, leader epoch


class BatchTrace:
    """Made per batch that is traced."""

    __slots__ = ("_seed", "parent_id", "produce_id", "trace_id")

    def __init__(self, seed: bytes, trace_id: bytes, parent_id: bytes | None) -> None:
        self._seed = seed
        self.trace_id = trace_id
        self.parent_id = parent_id  # of the producer's span; None: it names none
        self.produce_id = self.span_id(PRODUCE)  # of the leader's span

    def span_id(self, name: str) -> bytes:
        """Of the one span of this name in the trace of the batch."""
        return _hash(self._seed + name.encode(), SPAN_ID_BYTES)


def trace_of(
    batch: memoryview, *, topic_id: bytes, partition: int, base_offset: int, leader_epoch: int
) -> BatchTrace | None:
    """None when the producer says that its trace is not sampled: then nobody collects it."""
    seed = topic_id + _PLACE.pack(partition, base_offset, leader_epoch)
    named = traceparent_of(batch)
    if named is None:
        return BatchTrace(seed, _hash(seed, TRACE_ID_BYTES), None)
    if not named.is_sampled:
        return None
    return BatchTrace(seed, named.trace_id, named.span_id)


def attributes_of(
    batch: BatchHeader, partition: TopicPartition, base_offset: int
) -> dict[str, str | int]:
    """What spans tell of a batch, by OpenTelemetry's names for messages where it has one."""
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": partition.topic,
        "messaging.destination.partition.id": str(partition.partition),
        "messaging.kafka.offset": base_offset,
        "messaging.batch.message_count": batch.record_count,
        "penstock.batch.bytes": batch.size_bytes,
    }


def _hash(data: bytes, size: int) -> bytes:
    return blake2b(data, digest_size=size).digest()

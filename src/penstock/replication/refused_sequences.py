"""Sequences of idempotent producers that a partition refused with a retriable error code.

A producer has several batches in flight. One that is refused for now (the disk is full, too few
replicas are in sync, the transaction could not be verified yet) is sent again, and those sent after
it must not be appended first: a log that does not know the producer would accept any sequence, and
the refused batch would then be out of order for good. So the lowest refused sequence of each
producer is remembered, and higher sequences get the same error code until it is in the log. Apache
Kafka does not remember it, and reorders.

An entry ends when its sequence or a lower one is in the log, when its sequence is refused for good,
with a new producer epoch, with the producer's transaction, when this broker stops leading the
partition, or REMEMBERED_MS after the last refusal: a producer gives up a batch earlier than that.
Nothing is stored: after a restart the producer's connections are new, and it sends its batches in
order again.

A batch whose checksum does not match is not remembered, though clients send it again: its sequence
cannot be trusted.
"""

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.sequence import is_later
from penstock.records.batch import BatchHeader
from penstock.records.layout import NO_PRODUCER_ID

REMEMBERED_MS = 120_000  # the default of delivery.timeout.ms
PRODUCERS_MAX = 1000  # of one partition; the one that was refused first is forgotten first
RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)


@dataclass(slots=True, kw_only=True)
class RefusedSequence:
    epoch: ProducerEpoch
    sequence: int
    code: ErrorCode
    until_ms: int

    def is_due(self, now_ms: int) -> bool:
        """Whether the batch may still be sent again; not after the clock was set back by more than
        REMEMBERED_MS.
        """
        return 0 < self.until_ms - now_ms <= REMEMBERED_MS


class RefusedSequences:
    """The lowest refused sequence of each producer. Callers test `by_producer` first: it is mostly
    empty.
    """

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        self.by_producer: dict[ProducerId, RefusedSequence] = {}

    def note(self, batch: BatchHeader, code: ErrorCode, *, now_ms: int) -> None:
        """The batch was refused with `code`; after a code that is not retriable it is not sent
        again.
        """
        if batch.producer_id <= NO_PRODUCER_ID or batch.base_sequence < 0:
            return
        known = self.by_producer.get(batch.producer_id)
        if code not in RETRIABLE:
            here = (batch.producer_epoch, batch.base_sequence)
            if known is not None and here == (known.epoch, known.sequence):
                del self.by_producer[batch.producer_id]
            return
        if known is not None and known.is_due(now_ms):
            if batch.producer_epoch < known.epoch:
                return
            is_same_epoch = batch.producer_epoch == known.epoch
            if is_same_epoch and is_later(batch.base_sequence, than=known.sequence):
                return
        self.by_producer.pop(batch.producer_id, None)  # the newest entry stands last
        self.by_producer[batch.producer_id] = RefusedSequence(
            epoch=batch.producer_epoch,
            sequence=batch.base_sequence,
            code=code,
            until_ms=now_ms + REMEMBERED_MS,
        )
        if len(self.by_producer) > PRODUCERS_MAX:
            del self.by_producer[next(iter(self.by_producer))]

    def code_of_earlier(self, batch: BatchHeader, *, now_ms: int) -> ErrorCode | None:
        """The code with which an earlier batch of the same producer was refused, if that batch is
        still expected.
        """
        known = self.by_producer.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return None
        if not known.is_due(now_ms):
            del self.by_producer[batch.producer_id]
            return None
        return known.code if is_later(batch.base_sequence, than=known.sequence) else None

    def note_in_log(self, batch: BatchHeader) -> None:
        """The batch is in the log, as a new append or as a duplicate."""
        known = self.by_producer.get(batch.producer_id)
        if known is None or batch.producer_epoch < known.epoch:
            return
        if batch.producer_epoch > known.epoch or not is_later(
            batch.base_sequence, than=known.sequence
        ):
            del self.by_producer[batch.producer_id]

    def transaction_ended(self, marker: BatchHeader) -> None:
        """Nothing of the producer's transaction is accepted any more. A batch that was refused
        because the transaction had not ended yet belongs to the next one.
        """
        known = self.by_producer.get(marker.producer_id)
        if known is not None and known.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            del self.by_producer[marker.producer_id]

    def clear(self) -> None:
        self.by_producer.clear()

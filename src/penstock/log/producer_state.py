"""The state of idempotent producers in a log.

A batch of an idempotent producer changes the state of that producer; so does the marker that ends
its transaction. The state follows from the log: a follower, a restart and a recovery all get the
same state by passing the same batches to `apply`. `replication/leader` decides which batches are
accepted.

Invariants:
 1. At most five batches per producer, oldest first, all of its present epoch.
 2. A producer with an open transaction does not expire.
 3. `by_id` reflects every batch below `end_offset` and none above.
 4. From `unbroken_from` of a producer to its last sequence, all sequences of its epoch were
    appended one after the other. A restart forgets all but those of the remembered batches.
 5. Open transactions are also kept separately, oldest first: there may be many producers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from penstock.model import limit
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.sequence import NO_SEQUENCE, SEQUENCE_MAX, back
from penstock.records.batch import BatchHeader
from penstock.records.layout import FIRST_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP

NO_COORDINATOR_EPOCH = -1


@dataclass(slots=True)
class BatchMemory:
    """One batch: what is needed to recognise a retry of it."""

    base_sequence: int
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: int


@dataclass(slots=True, kw_only=True)
class ProducerState:
    producer_id: ProducerId
    epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    batches: list[BatchMemory] = field(default_factory=list)
    unbroken_from: int = NO_SEQUENCE  # from here to the last one all sequences are in the log
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: Offset | None = None
    last_timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """The content of an end-of-transaction marker."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    committed: bool
    offset: Offset
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTransaction:
    """A completed transaction with records in this log."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # of the marker
    last_stable_offset: Offset  # as of the marker
    committed: bool


class ProducerStates:
    """The producers of one log; see the module's invariants."""

    __slots__ = ("_noted_above", "_open", "by_id", "end_offset", "ended", "expiry_ms")

    def __init__(self, *, expiry_ms: int, end_offset: Offset = FIRST_OFFSET) -> None:
        self.by_id: dict[ProducerId, ProducerState] = {}
        self._open: dict[ProducerId, Offset] = {}
        self.end_offset = end_offset
        self.expiry_ms = expiry_ms
        # Markers that ended a transaction, since a replica has last looked: where each marker ends,
        # and the first offset of the oldest transaction that was open before it.
        self.ended: list[tuple[Offset, Offset]] = []
        self._noted_above: Offset | None = None

    @property
    def first_open_offset(self) -> Offset | None:
        """The first offset of the oldest open transaction: no stable offset is beyond it."""
        return next(iter(self._open.values()), None)

    def copy(self) -> "ProducerStates":
        """The same producers, for a caller that clears these."""
        copy = ProducerStates(expiry_ms=self.expiry_ms)
        copy.restore(self.by_id, self.end_offset)
        return copy

    def note_ended(self, above: Offset | None) -> None:
        """From now on markers that end above this offset are kept in `ended`; None: no more."""
        self._noted_above = above
        self.ended.clear()

    def apply(self, batch: BatchHeader) -> None:
        """Applies a batch of data, also one without a producer. Markers go to `end_transaction`."""
        last_offset = batch.last_offset
        self.end_offset = Offset(last_offset + 1)
        producer_id = batch.producer_id
        if producer_id <= NO_PRODUCER_ID:
            return
        epoch, timestamp_ms = batch.producer_epoch, batch.max_timestamp
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = ProducerState(producer_id=producer_id, epoch=epoch)
            self.by_id[producer_id] = producer
        batches = producer.batches
        if producer.epoch != epoch:
            batches.clear()
            producer.epoch = epoch
        sequence = batch.base_sequence
        if not batches or sequence != (batches[-1].last_sequence + 1) & SEQUENCE_MAX:
            producer.unbroken_from = sequence
        if len(batches) == limit.REMEMBERED_BATCHES:
            del batches[0]
        # A coordinator's own transactional records carry no sequence; they are kept all the same.
        batches.append(
            BatchMemory(
                sequence,
                batch.last_sequence,
                last_offset,
                batch.last_offset_delta,
                timestamp_ms,
            )
        )
        producer.last_timestamp_ms = timestamp_ms
        if batch.is_transactional and producer.current_txn_first_offset is None:
            producer.current_txn_first_offset = self._open[producer_id] = batch.base_offset

    def end_transaction(self, end: TransactionEnd) -> CompletedTransaction | None:
        """Applies a marker; None when the producer had written nothing in the transaction."""
        producer = self.by_id.get(end.producer_id)
        if producer is None:
            producer = ProducerState(producer_id=end.producer_id)
            self.by_id[end.producer_id] = producer
        first_offset = producer.current_txn_first_offset
        if producer.epoch != end.producer_epoch:
            producer.batches.clear()
            producer.epoch = end.producer_epoch
        producer.coordinator_epoch = end.coordinator_epoch
        producer.current_txn_first_offset = None
        producer.last_timestamp_ms = end.timestamp_ms
        self.end_offset = Offset(end.offset + 1)
        if first_offset is None:
            return None
        if self._noted_above is not None and self.end_offset > self._noted_above:
            self.ended.append((self.end_offset, next(iter(self._open.values()))))
        del self._open[end.producer_id]
        return CompletedTransaction(
            producer_id=end.producer_id,
            first_offset=first_offset,
            last_offset=end.offset,
            last_stable_offset=next(iter(self._open.values()), self.end_offset),
            committed=end.committed,
        )

    def pass_over(self, offset: Offset) -> None:
        """Everything below `offset` has been applied, or was deleted."""
        assert offset >= self.end_offset, (offset, self.end_offset)
        self.end_offset = offset

    def expire(self, now_ms: int) -> tuple[ProducerId, ...]:
        """Removes producers that have been silent for too long, and returns them."""
        expired = tuple(
            producer.producer_id
            for producer in self.by_id.values()
            if self._expired(producer, now_ms)
        )
        for producer_id in expired:
            del self.by_id[producer_id]
        return expired

    def clear(self, end_offset: Offset) -> None:
        self.restore({}, end_offset)

    def restore(self, by_id: Mapping[ProducerId, ProducerState], end_offset: Offset) -> None:
        """Replaces the state by a snapshot taken at `end_offset`."""
        self.by_id.clear()
        self.by_id.update(by_id)
        self._open = self._found_open()
        self.end_offset = end_offset

    def check(self) -> None:
        for producer_id, producer in self.by_id.items():
            assert producer.producer_id == producer_id
            assert len(producer.batches) <= limit.REMEMBERED_BATCHES, "invariant 1"
            for memory in producer.batches:
                assert memory.last_offset < self.end_offset, "invariant 3"
        assert list(self._open.items()) == list(self._found_open().items()), "invariant 5"

    def _found_open(self) -> dict[ProducerId, Offset]:
        found = [
            (producer.current_txn_first_offset, producer_id)
            for producer_id, producer in self.by_id.items()
            if producer.current_txn_first_offset is not None
        ]
        return {producer_id: first_offset for first_offset, producer_id in sorted(found)}

    def _expired(self, producer: ProducerState, now_ms: int) -> bool:
        return (
            producer.current_txn_first_offset is None
            and now_ms - producer.last_timestamp_ms >= self.expiry_ms
        )


def unbroken_from(batches: Sequence[BatchMemory]) -> int:
    """The first sequence of the batches at the end that follow each other without a gap."""
    found = NO_SEQUENCE
    for memory in reversed(batches):
        if found not in (NO_SEQUENCE, (memory.last_sequence + 1) & SEQUENCE_MAX):
            break
        found = memory.base_sequence
    return found


def first_sequence(*, last_sequence: int, offset_delta: int) -> int:
    """The first sequence of a batch, computed from the last one."""
    if last_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return back(last_sequence, by=offset_delta)

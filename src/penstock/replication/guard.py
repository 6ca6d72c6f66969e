"""The guard of a transaction's first append to a partition (KIP-890).

A late batch of a transaction that has ended must not begin a new transaction, which would never
end. So before the first append the coordinator is asked whether the transaction is open. The guard
is taken before the coordinator is asked, and checked in the same step as the append. A marker that
is written in between invalidates it, unless it is that of the transaction before. A client of
generation 2 is told at once that its transaction will be committed, and begins the next one while
the markers are on their way; the first batch of that may even be here before them. Markers end the
transactions of such a client with an epoch above that of its batches, so that the two are told
apart. A client of generation 1, whose epoch stays, waits for the markers before it begins: its
markers invalidate every guard of the producer.

Of several batches that are being verified at the same time, the first must be appended first: a
partition accepts any first sequence of an unknown producer, and would then refuse the earlier ones.

The result of a verification is valid until the transaction's marker, or until another client takes
the transaction over to end it (KIP-939): from then on, batches of the first client are refused. It
is neither stored nor replicated, and belongs to one leader epoch: in the next one the coordinator
is asked again. Another leader may have been told meanwhile that the transaction was taken over.
"""

from penstock.log.producer_state import ProducerState
from penstock.model.identity import ProducerEpoch, ProducerId


class Guard:
    """Shared by all requests of a producer that are being verified at one time."""

    __slots__ = ("ended_by_epoch", "first_sequence", "holders")

    def __init__(self, *, first_sequence: int = 0, ended_by_epoch: int = 0) -> None:
        self.first_sequence = first_sequence  # with which a producer that is not known here begins
        self.ended_by_epoch = (
            ended_by_epoch  # of a marker: one with a lower epoch is an earlier one
        )
        self.holders = 0


class Guards:
    """The guards of one partition, by producer."""

    __slots__ = ("_by_producer", "_found_open")

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, Guard] = {}
        self._found_open: dict[ProducerId, None] = {}

    def take(self, producer_id: ProducerId, *, sequence: int, ended_by_epoch: int = 0) -> Guard:
        """Call it before the coordinator is asked, and `release` afterwards, whatever the outcome.

        `sequence` is that of the batch, or 0 where a new producer must begin with 0.
        `ended_by_epoch` is the lowest epoch of markers that end the transaction of the batch.
        """
        guard = self._by_producer.get(producer_id)
        if guard is None or guard.ended_by_epoch < ended_by_epoch:
            guard = Guard(first_sequence=sequence, ended_by_epoch=ended_by_epoch)
            self._by_producer[producer_id] = guard
        elif guard.ended_by_epoch > ended_by_epoch:
            # A batch of an earlier transaction: this guard does not hold.
            guard = Guard(first_sequence=sequence, ended_by_epoch=ended_by_epoch)
        guard.first_sequence = min(guard.first_sequence, sequence)
        guard.holders += 1
        return guard

    def release(self, producer_id: ProducerId, guard: Guard) -> None:
        guard.holders -= 1
        assert guard.holders >= 0
        if guard.holders == 0 and self._by_producer.get(producer_id) is guard:
            del self._by_producer[producer_id]

    def clear(self, producer_id: ProducerId) -> None:
        """Another client took over: earlier verifications are void."""
        self._by_producer.pop(producer_id, None)
        self._found_open.pop(producer_id, None)

    def clear_all(self) -> None:
        """The leader epoch has ended: all verifications are void."""
        self._by_producer.clear()
        self._found_open.clear()

    def end(self, producer_id: ProducerId, *, epoch: int) -> None:
        """A marker was written: verifications of its transaction and of earlier ones are void."""
        guard = self._by_producer.get(producer_id)
        if guard is not None and guard.ended_by_epoch <= epoch:
            del self._by_producer[producer_id]
        self._found_open.pop(producer_id, None)

    def note_open(self, producer_id: ProducerId) -> None:
        """A batch was appended under a guard: the transaction need not be verified again."""
        self._found_open[producer_id] = None

    def is_held(self, producer_id: ProducerId) -> bool:
        """Whether batches of the producer are being verified: later ones come after them."""
        return producer_id in self._by_producer

    def found_open(self, producer_id: ProducerId) -> bool:
        return producer_id in self._found_open

    def holds(self, producer_id: ProducerId, guard: Guard) -> bool:
        return self._by_producer.get(producer_id) is guard


def in_transaction(producer: ProducerState | None, *, epoch: ProducerEpoch | int) -> bool:
    """Whether a producer of this epoch has a transaction open in the log."""
    return (
        producer is not None
        and producer.current_txn_first_offset is not None
        and producer.epoch == epoch
    )

"""The guard of a transaction's first append to a partition (KIP-890).

A late batch of a transaction that has ended must not begin a new one that nobody would ever end. So
before the first append the coordinator is asked whether the transaction is open; the guard is taken
before the question and checked in the same step as the append. A marker that comes in between takes
it away.

Of several batches that are being verified the first must be written first: a producer of whom a
partition knows nothing could begin with any, and those before it would never be taken.

That a transaction was found open holds until its marker, or until another client takes it over to
end it (KIP-939): from then on the one that wrote it is refused. It is not stored, so after a start
its coordinator is asked once more.
"""

from penstock.log.producer_state import ProducerState
from penstock.model.identity import ProducerEpoch, ProducerId


class Guard:
    """Shared by all requests of a producer that are being verified at one time."""

    __slots__ = ("first_sequence", "holders")

    def __init__(self, *, first_sequence: int = 0) -> None:
        self.first_sequence = first_sequence  # with which a producer that is not known here begins
        self.holders = 0


class Guards:
    """Those of one partition, by producer."""

    __slots__ = ("_by_producer", "_found_open")

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, Guard] = {}
        self._found_open: dict[ProducerId, None] = {}

    def take(self, producer_id: ProducerId, *, sequence: int) -> Guard:
        """Before the coordinator is asked; `release` it afterwards, whatever came of it.

        `sequence` is that of the batch, or 0 where a new producer must begin with that.
        """
        guard = self._by_producer.get(producer_id)
        if guard is None:
            guard = self._by_producer[producer_id] = Guard(first_sequence=sequence)
        guard.first_sequence = min(guard.first_sequence, sequence)
        guard.holders += 1
        return guard

    def release(self, producer_id: ProducerId, guard: Guard) -> None:
        guard.holders -= 1
        assert guard.holders >= 0
        if guard.holders == 0 and self._by_producer.get(producer_id) is guard:
            del self._by_producer[producer_id]

    def clear(self, producer_id: ProducerId) -> None:
        """A marker has come, or another client: what was verified before counts no more."""
        self._by_producer.pop(producer_id, None)
        self._found_open.pop(producer_id, None)

    def note_open(self, producer_id: ProducerId) -> None:
        """Something was written under a guard: the transaction need not be verified again."""
        self._found_open[producer_id] = None

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

"""The state of one coordinator: the transactional ids of one partition of `__transaction_state`.

The same code applies its records live and at replay. Deadlines are not journalled, nor is which
partitions of a decided transaction have their markers already: after a failover all markers are
sent again.

Invariants:
1. `unmarked` holds exactly the decided transactions, each with some of its partitions.
2. This shard never reuses the number of a decision.
3. Only an ongoing transaction that is not two-phase has a deadline.
"""

from penstock.machine.deadlines import Deadlines
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.changes import (
    CancelDeadline,
    ExpiryReached,
    PartitionsMarked,
    SetDeadline,
)
from penstock.transactions.records import TransactionStored
from penstock.transactions.state import Transaction, TransactionState
from penstock.transactions.timers import TimerKey, TransactionEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmarked:
    """The markers that a decided transaction still waits for."""

    number: int  # of the decision: what is reported about an earlier one must not count for it
    partitions: tuple[TopicPartition, ...]


class TransactionShard:
    """`coordinator_epoch` is the leader epoch of the partition: markers carry it."""

    def __init__(self, *, coordinator_epoch: int) -> None:
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.unmarked: dict[str, Unmarked] = {}
        self.deadlines: Deadlines[TimerKey] = Deadlines()
        self.expiry_left: tuple[str, ...] = ()  # ids that a round of expiry has still to see
        self._decisions = 0

    @property
    def next_decision(self) -> int:
        """The number that the next decision about a transaction will have."""
        return self._decisions + 1

    def apply(self, record: TransactionStored) -> None:
        transactional_id, transaction = record.transactional_id, record.value
        self.unmarked.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.is_decided:
            self._decisions += 1
            self.unmarked[transactional_id] = Unmarked(
                number=self._decisions, partitions=transaction.partitions
            )

    def apply_volatile(self, change: object) -> None:
        match change:
            case SetDeadline():
                self.deadlines.set(change.key, change.at_ms)
            case CancelDeadline():
                self.deadlines.cancel(change.key)
            case ExpiryReached():
                self.expiry_left = change.left
            case PartitionsMarked():
                before = self.unmarked[change.transactional_id]
                left = tuple(p for p in before.partitions if p not in change.partitions)
                self.unmarked[change.transactional_id] = Unmarked(
                    number=before.number, partitions=left
                )
            case _:
                raise AssertionError(f"not a change of this state: {change!r}")

    def check(self) -> None:
        decided = {key for key, value in self.transactions.items() if value.is_decided}
        assert decided == self.unmarked.keys()  # invariant 1
        for transactional_id, transaction in self.transactions.items():
            assert transaction.transactional_id == transactional_id
            transaction.check()
            if transaction.is_decided:
                unmarked = self.unmarked[transactional_id]
                assert set(unmarked.partitions) <= set(transaction.partitions)  # invariant 1
                assert 0 < unmarked.number <= self._decisions  # invariant 2
            may_end = transaction.state is TransactionState.ONGOING and not transaction.is_two_phase
            if self.deadlines.at(TransactionEnds(transactional_id)) is not None:
                assert may_end, transaction  # invariant 3
        numbers = [unmarked.number for unmarked in self.unmarked.values()]
        assert len(numbers) == len(set(numbers))  # invariant 2
        self.deadlines.check()

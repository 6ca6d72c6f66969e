"""What a coordinator knows of one transactional id, and which state may follow which.

    Empty ----> Ongoing ----> PrepareCommit ----> CompleteCommit --.
      |            |                                               |--> Empty, Ongoing, PrepareAbort
      '------------'--------> PrepareAbort -----> CompleteAbort ---'

Empty, and both Complete states, wait for the next transaction; the first partition that is added
begins it. A Prepare state is the decision: it is journalled before the reply and the markers are
sent, and only completion can follow, once the markers are in all partitions. A transaction without
partitions can be aborted too: the abort gives its producer a new epoch, so that requests still in
flight are fenced.

PrepareEpochFence and Dead have names and numbers in Apache Kafka's protocol. They are never used
here: fencing and aborting are one decision, and so is removal.

Identities. A producer id and epoch belong to one client; requests with any other are fenced. There
are two identities, which are mostly the same: the one in the partitions, of batches and markers
(`producer_id`, `producer_epoch`), and the one that was sent to the client (`identity`). They differ
(`next_identity` is set) while a transaction of an earlier client is kept for two-phase commit
(KIP-939), and after a decision that gave the client another producer id (KIP-890).

The `previous` identity is the one that the client had before, and with which it may repeat its last
request, if the reply was lost. Only its producer id is stored; its epoch can be computed.

Invariants:
1. Partitions are sorted and unique; there are none while no transaction is open.
2. An open transaction has a time of start.
3. A client has no epoch above LAST_EPOCH: one more is reserved for fencing it.
4. `next_identity` is set only while a transaction is open.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import INT_MAX

LAST_EPOCH = 2**15 - 2  # the last that a client may hold; then its producer id is used up
TWO_PHASE_TIMEOUT_MS = INT_MAX  # how a transaction without time-out is stored


class TransactionState(IntEnum):
    """By the numbers of the record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def word(self) -> str:
        """The name in requests and replies."""
        return self.name.title().replace("_", "")


S = TransactionState
MAY_BECOME: Mapping[TransactionState, frozenset[TransactionState]] = {
    S.EMPTY: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD}),
    S.ONGOING: frozenset({S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.PREPARE_EPOCH_FENCE}),
    S.PREPARE_COMMIT: frozenset({S.COMPLETE_COMMIT}),  # decided: no way back
    S.PREPARE_ABORT: frozenset({S.COMPLETE_ABORT}),
    S.COMPLETE_COMMIT: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD}),
    S.COMPLETE_ABORT: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD}),
    S.DEAD: frozenset(),
    S.PREPARE_EPOCH_FENCE: frozenset({S.PREPARE_ABORT}),
}
assert set(MAY_BECOME) == set(TransactionState)
BY_WORD: Mapping[str, TransactionState] = {state.word: state for state in TransactionState}
DECIDED = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
OPEN = DECIDED | {S.ONGOING}
NEVER_STORED = frozenset({S.DEAD, S.PREPARE_EPOCH_FENCE})


class Identity(NamedTuple):
    """One incarnation of a producer."""

    producer_id: ProducerId
    epoch: ProducerEpoch

    @property
    def exhausted(self) -> bool:
        """Whether the next identity needs another producer id."""
        return self.epoch >= LAST_EPOCH

    def bumped(self) -> "Identity":
        assert self.epoch <= LAST_EPOCH, self
        return Identity(self.producer_id, ProducerEpoch(self.epoch + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id with the transaction that it is in, or last was in."""

    transactional_id: str
    producer_id: ProducerId  # of the open transaction; of the decision's markers once decided
    producer_epoch: ProducerEpoch
    next_identity: Identity | None = None
    previous_producer_id: ProducerId | None = None
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int | None = None
    last_update_ms: int
    client_version: int = 0  # 2 where each transaction has an epoch of its own, else 0

    @property
    def writer(self) -> Identity:
        """The identity in the partitions: that of the open transaction's batches, then that of its
        markers.
        """
        return Identity(self.producer_id, self.producer_epoch)

    @property
    def identity(self) -> Identity:
        """The identity that was last sent to the client; all others are fenced."""
        return self.writer if self.next_identity is None else self.next_identity

    @property
    def previous(self) -> Identity | None:
        """The client's previous identity, if it may repeat the request with it."""
        producer_id, epoch = self.identity
        if self.previous_producer_id is None:
            return None
        if self.previous_producer_id != producer_id:
            return Identity(self.previous_producer_id, ProducerEpoch(LAST_EPOCH))
        return Identity(producer_id, ProducerEpoch(epoch - 1)) if epoch > 0 else None

    def is_held_by(self, who: Identity) -> bool:
        """Whether this is the identity of the present client."""
        return who == self.identity and who.epoch <= LAST_EPOCH

    @property
    def is_decided(self) -> bool:
        return self.state in DECIDED

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_kept(self) -> bool:
        """Whether the transaction is kept for another client to commit or abort."""
        return self.state is TransactionState.ONGOING and self.next_identity is not None

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    def become(self, state: TransactionState, **changes: Any) -> "Transaction":
        """The transaction in its next state. Every decision uses this."""
        assert state in MAY_BECOME[self.state], (self, state)
        after = replace(self, state=state, **changes)
        after.check()
        return after

    def check(self) -> None:
        assert self.state not in NEVER_STORED, self
        assert list(self.partitions) == sorted(set(self.partitions)), self  # invariant 1
        if self.is_open:
            assert self.start_ms is not None, self  # invariant 2
        else:
            assert not self.partitions, self  # invariant 1
            assert self.next_identity is None, self  # invariant 4
        assert 0 <= self.writer.epoch <= LAST_EPOCH + 1, self
        if self.state is TransactionState.ONGOING:
            assert self.writer.epoch <= LAST_EPOCH, self  # invariant 3
            assert self.identity.epoch <= LAST_EPOCH, self  # invariant 3


def successor(held: Identity | None, gained: Identity) -> ProducerId | None:
    """What is stored so that `held` can be recognised as the previous identity of `gained`."""
    if held is None:
        return None
    if held.producer_id != gained.producer_id and held.epoch != LAST_EPOCH:
        return None
    return held.producer_id

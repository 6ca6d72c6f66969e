"""The transactions of one producer as it knows them: what it may do, and what follows from answers.

    NEW ---> READY ---> OPEN ---> CLOSING ---> COMMITTING ---> READY
                          |         |  '-----> PREPARED --'      ^
                          |         v             |              |
                          '--> ABORT_ONLY --> ABORTING ----------'
    and from each of them to OVER: fenced, or beyond help

A value and functions that make the next one: no tasks, no sockets, no clock.

Promises:
 1. Once a commit has been asked for, nothing but the same commit is asked for, until the
    coordinator has answered: an abort could contradict what it has decided and not told.
 2. What was lost of a transaction keeps it from being committed.
 3. In generation 1 an abort uses up the identity: a write that is still under way must not end up
    in the next transaction. In generation 2 every end does, and the coordinator gives the next.
 4. A transaction of which nobody has heard is ended without asking anybody.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from penstock.client.network.errors import AbortOnly, ClientError, CommitInDoubt, Fenced, WrongStage
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transaction_answers import NOT_YET, Answer, Verdict
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.state import Identity


class Stage(Enum):
    NEW = "it has no producer id, or one that must be traded in"
    READY = "no transaction has begun"
    OPEN = "a transaction is open"
    CLOSING = "what was written is being delivered"
    PREPARED = "the transaction is prepared"
    ABORT_ONLY = "the transaction can only be aborted"
    COMMITTING = "a commit was asked for, and is not answered yet"
    ABORTING = "an abort was asked for, and is not answered yet"
    OVER = "this producer can do nothing more"


class Wish(Enum):
    BEGIN = "begin a transaction"
    WRITE = "write"
    PREPARE = "prepare"
    COMMIT = "commit"
    ABORT = "abort"


S = Stage
MAY_BECOME: Mapping[Stage, frozenset[Stage]] = {
    S.NEW: frozenset({S.NEW, S.READY, S.PREPARED, S.OVER}),
    S.READY: frozenset({S.OPEN}),
    S.OPEN: frozenset({S.OPEN, S.CLOSING, S.ABORT_ONLY, S.ABORTING, S.READY, S.OVER}),
    S.CLOSING: frozenset(
        {S.CLOSING, S.PREPARED, S.COMMITTING, S.ABORT_ONLY, S.ABORTING, S.READY, S.OVER}
    ),
    S.PREPARED: frozenset({S.COMMITTING, S.ABORTING}),
    S.ABORT_ONLY: frozenset({S.ABORT_ONLY, S.ABORTING, S.READY, S.OVER}),
    S.COMMITTING: frozenset({S.COMMITTING, S.READY, S.ABORT_ONLY, S.OVER}),
    S.ABORTING: frozenset({S.ABORTING, S.READY, S.NEW, S.OVER}),
    S.OVER: frozenset({S.OVER}),
}
MAY_WISH: Mapping[Stage, frozenset[Wish]] = {
    S.NEW: frozenset({Wish.BEGIN}),
    S.READY: frozenset({Wish.BEGIN}),
    S.OPEN: frozenset({Wish.WRITE, Wish.PREPARE, Wish.COMMIT, Wish.ABORT}),
    S.CLOSING: frozenset({Wish.PREPARE, Wish.COMMIT, Wish.ABORT}),
    S.PREPARED: frozenset({Wish.COMMIT, Wish.ABORT}),
    S.ABORT_ONLY: frozenset({Wish.ABORT}),
    S.COMMITTING: frozenset({Wish.COMMIT}),  # promise 1
    S.ABORTING: frozenset({Wish.ABORT}),
    S.OVER: frozenset(),
}
assert set(MAY_BECOME) == set(MAY_WISH) == set(Stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTransaction:
    transactional_id: str
    stage: Stage = Stage.NEW
    identity: Identity | None = None
    kept: Identity | None = None  # whose transaction it is, where another producer prepared it
    generation: Generation = Generation.ONE
    touched: bool = False  # a broker may have heard of it
    enlisted: bool = False  # the coordinator has said that it is open
    in_doubt: bool = False  # a commit may have been carried out unheard
    error: ClientError | None = None  # why it can only be aborted, or is over

    def become(self, stage: Stage, **changes: Any) -> "ProducerTransaction":
        assert stage in MAY_BECOME[self.stage], (self, stage)
        after = replace(self, stage=stage, **changes)
        after.check()
        return after

    def check(self) -> None:
        has_error = self.stage in (S.ABORT_ONLY, S.OVER)
        assert has_error or self.error is None, self
        assert not has_error or self.error is not None, self
        assert self.stage in (S.NEW, S.OVER) or self.identity is not None, self
        assert not self.in_doubt or self.stage in (S.COMMITTING, S.OVER), self
        assert self.stage not in (S.COMMITTING, S.ABORTING) or self.touched, self  # promise 4
        assert self.stage not in (S.NEW, S.READY) or not self.touched, self


def refusal(transaction: ProducerTransaction, wish: Wish) -> ClientError | None:
    """Why the producer's user can't have what he wishes for now."""
    if wish in MAY_WISH[transaction.stage]:
        return None
    if transaction.stage is S.ABORT_ONLY:
        assert transaction.error is not None
        return AbortOnly(transaction.transactional_id, transaction.error)
    if transaction.stage is S.OVER:
        assert transaction.error is not None
        return transaction.error
    return WrongStage(
        f"transactional id {transaction.transactional_id}: it can't {wish.value} now:"
        f" {transaction.stage.value}"
    )


def identified(
    transaction: ProducerTransaction, answer: Answer, generation: Generation
) -> ProducerTransaction:
    """After InitProducerId. Where time was up, it may be asked for again."""
    match answer.verdict:
        case Verdict.DONE:
            assert answer.identity is not None
            kept = answer.ongoing is not None
            return transaction.become(
                S.PREPARED if kept else S.READY,
                identity=answer.identity,
                kept=answer.ongoing,
                generation=generation,
                touched=kept,
                enlisted=kept,
            )
        case Verdict.FENCED | Verdict.FAILED:
            return over(transaction, answer)
    assert answer.verdict in NOT_YET, answer
    return transaction


def begun(transaction: ProducerTransaction, generation: Generation) -> ProducerTransaction:
    return transaction.become(S.OPEN, generation=generation)


def touched(transaction: ProducerTransaction) -> ProducerTransaction:
    """Something is about to be sent that tells a broker of the transaction."""
    return transaction if transaction.touched else transaction.become(S.OPEN, touched=True)


def enlisted(transaction: ProducerTransaction, answer: Answer) -> ProducerTransaction:
    """After partitions or offsets were to be added."""
    if transaction.stage not in (S.OPEN, S.CLOSING):
        return transaction  # it was ended meanwhile, or something else was lost
    match answer.verdict:
        case Verdict.DONE:
            return transaction.become(transaction.stage, enlisted=True)
        case Verdict.FENCED | Verdict.FAILED:
            return over(transaction, answer)
    assert answer.error is not None
    return harmed(transaction, answer.error)


def harmed(transaction: ProducerTransaction, error: ClientError) -> ProducerTransaction:
    """A part of the transaction was lost: promise 2. What was lost first is remembered."""
    if transaction.stage not in (S.OPEN, S.CLOSING):
        return transaction
    return transaction.become(S.ABORT_ONLY, error=error)


def closing(transaction: ProducerTransaction) -> ProducerTransaction:
    """Nothing more is taken in."""
    return transaction.become(S.CLOSING)


def prepared(transaction: ProducerTransaction) -> ProducerTransaction:
    """All that was written is acked: PREPARED, or READY where nothing was written."""
    return transaction.become(S.PREPARED) if transaction.touched else transaction.become(S.READY)


def ending(transaction: ProducerTransaction, *, commit: bool) -> ProducerTransaction:
    """What is to be asked of the coordinator; READY when nothing is (promise 4)."""
    if not transaction.touched:
        return transaction.become(S.READY, error=None)
    if not commit:
        return transaction.become(S.ABORTING, error=None)
    # Who asks again does so because the first answer never came.
    asked_before = transaction.stage is S.COMMITTING
    return transaction.become(S.COMMITTING, in_doubt=transaction.in_doubt or asked_before)


def ended(transaction: ProducerTransaction, answer: Answer) -> ProducerTransaction:
    """After EndTxn."""
    is_commit = transaction.stage is S.COMMITTING
    assert is_commit or transaction.stage is S.ABORTING, transaction
    in_doubt = is_commit and (transaction.in_doubt or answer.in_doubt)
    if answer.verdict is Verdict.DONE or _was_never_open(transaction, answer):
        return _after_end(transaction, answer.identity, is_commit=is_commit)
    if answer.verdict in NOT_YET:
        return transaction.become(transaction.stage, in_doubt=in_doubt)
    if answer.verdict is Verdict.ABORT_ONLY:
        assert is_commit, answer
        return transaction.become(S.ABORT_ONLY, error=answer.error, in_doubt=False)
    return over(replace(transaction, in_doubt=in_doubt), answer)


def over(transaction: ProducerTransaction, answer: Answer) -> ProducerTransaction:
    assert answer.error is not None
    error = answer.error
    if answer.verdict is Verdict.FENCED:
        error = Fenced(transaction.transactional_id, in_doubt=transaction.in_doubt)
        error.__cause__ = answer.error
    return transaction.become(S.OVER, error=error)


def unanswered(transaction: ProducerTransaction, answer: Answer) -> ClientError:
    """What to tell the producer's user when time was up."""
    assert answer.verdict in NOT_YET, answer
    assert answer.error is not None
    if not transaction.in_doubt:
        return answer.error
    doubt = CommitInDoubt(
        f"transactional id {transaction.transactional_id}: nobody answered whether the transaction"
        f" was committed; ask for the commit again: {answer.error}"
    )
    doubt.__cause__ = answer.error
    return doubt


def _after_end(
    transaction: ProducerTransaction, gained: Identity | None, *, is_commit: bool
) -> ProducerTransaction:
    used_up = gained is None and not is_commit  # promise 3
    return transaction.become(
        S.NEW if used_up else S.READY,
        identity=transaction.identity if gained is None else gained,
        kept=None,
        touched=False,
        enlisted=False,
        in_doubt=False,
    )


def _was_never_open(transaction: ProducerTransaction, answer: Answer) -> bool:
    """An abort in generation 1 that finds nothing, after additions that were never confirmed."""
    return (
        transaction.stage is S.ABORTING
        and transaction.generation is Generation.ONE
        and not transaction.enlisted
        and answer.code == ErrorCode.INVALID_TXN_STATE
    )

"""Deadlines: abort of transactions that time out, and expiry of unused transactional ids.

Deadlines are on the monotonic clock and lost on failover; `changes_after_load` sets them again from
the times that are stored. A transaction of a two-phase commit has no deadline: an external
coordinator decides its outcome.
"""

from collections.abc import Iterable

from penstock.machine.decision import Decision
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.transactions.changes import CancelDeadline, ExpiryReached, SetDeadline
from penstock.transactions.decision_context import DecisionContext
from penstock.transactions.finish import abort_and_fence
from penstock.transactions.records import TransactionStored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Transaction, TransactionState
from penstock.transactions.timers import IDS_EXPIRE, TransactionEnds


def decide_transaction_ended(
    shard: TransactionShard, context: DecisionContext, key: TransactionEnds
) -> Decision[TransactionStored, None]:
    """The client may have stopped or be slow: the abort fences it, so that it notices."""
    transaction = shard.transactions.get(key.transactional_id)
    if transaction is None or not _may_time_out(transaction):
        return Decision(reply=None, volatile=(CancelDeadline(key=key),))
    record, volatile, effects = abort_and_fence(shard, context, transaction)
    return Decision(reply=None, records=(record,), volatile=volatile, effects=effects)


def decide_ids_expired(
    shard: TransactionShard, context: DecisionContext
) -> Decision[TransactionStored, None]:
    """One step of a round over all ids: removes those that have expired, and sets the deadline of
    the next step, at once if more ids are left. Requests in between may change or remove any id.
    """
    unused_since_ms = context.now_ms - context.settings.transactional_id_expiration_ms
    to_see = shard.expiry_left or tuple(shard.transactions)
    left = to_see[TRANSACTIONAL_IDS_PER_STEP:]
    expired = tuple(
        TransactionStored(transactional_id=transactional_id, value=None)
        for transactional_id in to_see[:TRANSACTIONAL_IDS_PER_STEP]
        if _is_unused(shard.transactions.get(transactional_id), since_ms=unused_since_ms)
    )
    if left:
        again = SetDeadline(key=IDS_EXPIRE, at_ms=context.monotonic_ms)
    else:
        again = next_expiry(context)
    return Decision(reply=None, records=expired, volatile=(ExpiryReached(left=left), again))


def changes_after_load(
    shard: TransactionShard, context: DecisionContext, transactional_ids: Iterable[str]
) -> tuple[SetDeadline, ...]:
    """The deadlines of a shard that has just been replayed, as far as these ids have some."""
    ends = (
        SetDeadline(
            key=TransactionEnds(transaction.transactional_id),
            at_ms=context.monotonic_ms + _left_ms(transaction, now_ms=context.now_ms),
        )
        for transaction in map(shard.transactions.__getitem__, transactional_ids)
        if _may_time_out(transaction)
    )
    return (*ends, next_expiry(context))


def next_expiry(context: DecisionContext) -> SetDeadline:
    interval = context.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    return SetDeadline(key=IDS_EXPIRE, at_ms=context.monotonic_ms + interval)


def _may_time_out(transaction: Transaction) -> bool:
    return transaction.state is TransactionState.ONGOING and not transaction.is_two_phase


def _is_unused(transaction: Transaction | None, *, since_ms: int) -> bool:
    """Not so one that has been removed meanwhile."""
    return (
        transaction is not None
        and not transaction.is_open
        and transaction.last_update_ms <= since_ms
    )


def _left_ms(transaction: Transaction, *, now_ms: int) -> int:
    """By the wall clock, which may have been turned back: never more than the whole time-out."""
    assert transaction.start_ms is not None
    open_ms = max(now_ms - transaction.start_ms, 0)
    return max(transaction.timeout_ms - open_ms, 0)

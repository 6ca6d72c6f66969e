"""The end of a transaction: by its client (EndTxn), or by the coordinator, which fences the client.

There are two generations of clients (KIP-890); the version of EndTxn tells which:

    1   keeps its epoch from transaction to transaction. A second EndTxn is a retry.
    2   gets a new identity with every end, in the reply: the epoch grows, and when none is left the
        producer id changes. A request with the previous identity is a retry.

Markers of generation 2, and those of fenced clients, have the new epoch: the partitions themselves
refuse later batches of the old epoch.
"""

from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.transactions.changes import CancelDeadline
from penstock.transactions.decision_context import (
    NEEDS_PRODUCER_ID,
    Asked,
    DecisionContext,
    NeedsProducerId,
    fenced,
)
from penstock.transactions.markers import complete, markers_of
from penstock.transactions.records import TransactionStored, stored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import (
    LAST_EPOCH,
    Identity,
    Transaction,
    TransactionState,
    successor,
)
from penstock.transactions.timers import TransactionEnds
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_FROM_VERSION = 2
GENERATION_2_FROM_VERSION = 5
GENERATION_2 = 2

S = TransactionState
EndDecision = Decision[TransactionStored, EndTxnResponse | NeedsProducerId]


def decide_end(
    shard: TransactionShard, context: DecisionContext, asked: Asked[EndTxnRequest]
) -> EndDecision:
    request = asked.request
    if not request.transactional_id:
        return _refuse(ErrorCode.INVALID_REQUEST)
    transaction = shard.transactions.get(request.transactional_id)
    if transaction is None:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    who = Identity(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
    is_retry = (
        asked.version >= GENERATION_2_FROM_VERSION
        and who == transaction.previous
        and _is_ended(transaction)
        and transaction.identity.epoch <= LAST_EPOCH
    )
    if not is_retry and who.producer_id != transaction.identity.producer_id:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not is_retry and not transaction.is_held_by(who):
        return _refuse(fenced(asked.version, from_version=FENCED_FROM_VERSION))
    if asked.version >= GENERATION_2_FROM_VERSION:
        return _end_of_generation_2(shard, context, transaction, request, is_retry=is_retry)
    return _end_of_generation_1(shard, context, transaction, request)


def abort_and_fence(
    shard: TransactionShard, context: DecisionContext, ongoing: Transaction
) -> tuple[TransactionStored, tuple[object, ...], tuple[object, ...]]:
    """Aborts a transaction that its client has left open: record, volatile changes, effects.

    The epoch is bumped, and the new identity is not sent to any client, so the present client is
    fenced. The next client to ask gets it: a successor, or, as long as there is none, the client
    itself when it sends InitProducerId or aborts. So a client recovers from a time-out (KIP-588).
    """
    aborted = _decided(
        context,
        ongoing,
        S.PREPARE_ABORT,
        held=ongoing.identity,
        gained=ongoing.identity.bumped(),
        client_version=GENERATION_2,
    )
    return stored(aborted), *_consequences(shard, aborted)


def traded(held: Identity, context: DecisionContext) -> Identity | None:
    """The next identity of a client; None when it needs a new producer id and there is none."""
    if not held.exhausted:
        return held.bumped()
    fresh = context.fresh_producer_id()
    return None if fresh is None else Identity(fresh, ProducerEpoch(0))


def _end_of_generation_1(
    shard: TransactionShard,
    context: DecisionContext,
    transaction: Transaction,
    request: EndTxnRequest,
) -> EndDecision:
    state, is_commit = transaction.state, request.committed
    if state is S.ONGOING:
        end = _decided(
            context,
            transaction,
            S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT,
            held=None,
            gained=transaction.identity,
            client_version=0,
        )
        return _decide(shard, end, EndTxnResponse())
    if state is S.EMPTY or _was_committed(state) != is_commit:
        return _refuse(ErrorCode.INVALID_TXN_STATE)
    if transaction.is_decided:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Decision(reply=EndTxnResponse())


def _end_of_generation_2(
    shard: TransactionShard,
    context: DecisionContext,
    transaction: Transaction,
    request: EndTxnRequest,
    *,
    is_retry: bool,
) -> EndDecision:
    state, is_commit = transaction.state, request.committed
    if is_retry:
        if is_commit and not _was_committed(state):
            # Most likely it timed out. Kafka answers INVALID_TXN_STATE, which stops Kafka Streams;
            # after PRODUCER_FENCED it continues with a new producer.
            return _refuse(ErrorCode.PRODUCER_FENCED)
        if _was_committed(state) != is_commit:
            return _refuse(ErrorCode.INVALID_TXN_STATE)
        if transaction.is_decided:
            return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        return Decision(reply=_reply(transaction.identity))
    if transaction.is_decided:
        # The client is ahead: it means its next transaction, and this one's markers are on the way.
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_commit and state is not S.ONGOING:
        return _refuse(ErrorCode.INVALID_TXN_STATE)
    gained = traded(transaction.identity, context)
    if gained is None:
        return Decision.refuse(NEEDS_PRODUCER_ID)
    end = _decided(
        context,
        transaction,
        S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT,
        held=transaction.identity,
        gained=gained,
        client_version=GENERATION_2,
    )
    if state is S.ONGOING:
        return _decide(shard, end, _reply(gained))
    # Nothing was added: an abort only fences what may still be under way, and is complete at once.
    done = complete(end, now_ms=context.now_ms)
    return Decision(reply=_reply(gained), records=(stored(end), stored(done)))


def _decided(
    context: DecisionContext,
    transaction: Transaction,
    state: TransactionState,
    *,
    held: Identity | None,
    gained: Identity,
    client_version: int,
) -> Transaction:
    """The decision. `held` was traded in for `gained`, and may be again."""
    writer = transaction.writer
    # Where the client keeps the identity that wrote, markers carry it too; else it ends with them.
    marker = writer if gained == writer else writer.bumped()
    was_ongoing = transaction.state is S.ONGOING
    return transaction.become(
        state,
        producer_epoch=marker.epoch,
        next_identity=None if gained == marker else gained,
        previous_producer_id=successor(held, gained),
        start_ms=transaction.start_ms if was_ongoing else context.now_ms,
        last_update_ms=context.now_ms,
        client_version=client_version,
    )


def _decide(
    shard: TransactionShard, decided: Transaction, reply: EndTxnResponse
) -> Decision[TransactionStored, EndTxnResponse]:
    volatile, effects = _consequences(shard, decided)
    return Decision(reply=reply, records=(stored(decided),), volatile=volatile, effects=effects)


def _consequences(
    shard: TransactionShard, decided: Transaction
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    cancelled = CancelDeadline(key=TransactionEnds(decided.transactional_id))
    return (cancelled,), (markers_of(shard, decided, number=shard.next_decision),)


def _is_ended(transaction: Transaction) -> bool:
    return transaction.state not in (S.EMPTY, S.ONGOING)


def _was_committed(state: TransactionState) -> bool:
    return state in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)


def _reply(identity: Identity) -> EndTxnResponse:
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _refuse(error: ErrorCode) -> Decision[TransactionStored, EndTxnResponse]:
    return Decision.refuse(EndTxnResponse(error_code=error))

"""InitProducerId with a transactional id: a client takes the id over, and all others are fenced.

A client that has held the id before sends its present identity, to get the next one (KIP-360): it
is refused when another client has taken over since, and may repeat the request when the reply was
lost. A transaction that an earlier client left open is aborted first, and the client retries until
that is complete; with keep-prepared it stays open, and the new client may only commit or abort it
(KIP-939).
"""

from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.settings.transactions import TransactionSettings
from penstock.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.transactions.changes import CancelDeadline
from penstock.transactions.decision_context import (
    NEEDS_PRODUCER_ID,
    Asked,
    DecisionContext,
    NeedsProducerId,
    fenced,
)
from penstock.transactions.finish import abort_and_fence, traded
from penstock.transactions.markers import stop_writer
from penstock.transactions.records import TransactionStored, stored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import (
    LAST_EPOCH,
    TWO_PHASE_TIMEOUT_MS,
    Identity,
    Transaction,
    TransactionState,
    successor,
)
from penstock.transactions.timers import TransactionEnds
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_FROM_VERSION = 4

InitDecision = Decision[TransactionStored, InitProducerIdResponse | NeedsProducerId]


def decide_init(
    shard: TransactionShard, context: DecisionContext, asked: Asked[InitProducerIdRequest]
) -> InitDecision:
    request = asked.request
    transactional_id = request.transactional_id
    assert transactional_id is not None, "only producers with a transactional id come here"
    error = _error_in(request, context.settings)
    if error is not None:
        return _refuse(error)
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return _first(context, transactional_id, request)
    held = _held(request)
    is_retry = held is not None and held == transaction.previous
    if held is not None and not is_retry and not transaction.is_held_by(held):
        return _refuse(fenced(asked.version, from_version=FENCED_FROM_VERSION))
    if transaction.is_decided:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is not TransactionState.ONGOING:
        return _take_over(context, transaction, request, held, is_retry=is_retry)
    if request.keep_prepared_txn:
        return _keep(context, transaction, request, held, is_retry=is_retry)
    record, volatile, effects = abort_and_fence(shard, context, transaction)
    reply = _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Decision(reply=reply, records=(record,), volatile=volatile, effects=effects)


def _error_in(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode | None:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    is_two_phase = request.enable2_pc or request.keep_prepared_txn
    if is_two_phase and not settings.transaction_two_phase_commit_enable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # The largest time-out stands for none, which only two-phase commit may have.
    timeout_ms_max = min(settings.transaction_max_timeout_ms, TWO_PHASE_TIMEOUT_MS - 1)
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= timeout_ms_max:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def _first(
    context: DecisionContext, transactional_id: str, request: InitProducerIdRequest
) -> InitDecision:
    producer_id = context.fresh_producer_id()
    if producer_id is None:
        return Decision.refuse(NEEDS_PRODUCER_ID)
    transaction = Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(0),
        timeout_ms=_timeout_ms(request),
        state=TransactionState.EMPTY,
        last_update_ms=context.now_ms,
    )
    return Decision(reply=_reply(transaction), records=(stored(transaction),))


def _take_over(
    context: DecisionContext,
    transaction: Transaction,
    request: InitProducerIdRequest,
    held: Identity | None,
    *,
    is_retry: bool,
) -> InitDecision:
    """No transaction is open: the client gets the next identity, or the one it should have got."""
    is_waiting = is_retry and transaction.identity.epoch <= LAST_EPOCH
    gained = transaction.identity if is_waiting else traded(transaction.identity, context)
    if gained is None:
        return Decision.refuse(NEEDS_PRODUCER_ID)
    taken = transaction.become(
        TransactionState.EMPTY,
        producer_id=gained.producer_id,
        producer_epoch=gained.epoch,
        previous_producer_id=successor(held, gained),
        timeout_ms=_timeout_ms(request),
        start_ms=None,
        last_update_ms=context.now_ms,
        client_version=0,
    )
    return Decision(reply=_reply(taken), records=(stored(taken),))


def _keep(
    context: DecisionContext,
    ongoing: Transaction,
    request: InitProducerIdRequest,
    held: Identity | None,
    *,
    is_retry: bool,
) -> InitDecision:
    """The transaction stays as it is; only its client changes."""
    gained = ongoing.identity if is_retry else traded(ongoing.identity, context)
    if gained is None:
        return Decision.refuse(NEEDS_PRODUCER_ID)
    kept = ongoing.become(
        TransactionState.ONGOING,
        next_identity=gained,
        previous_producer_id=successor(held, gained),
        # What is prepared may wait for its coordinator: it is never given a time-out again.
        timeout_ms=_timeout_ms(request) if request.enable2_pc else ongoing.timeout_ms,
        last_update_ms=context.now_ms,
    )
    ends = TransactionEnds(kept.transactional_id)
    volatile = (CancelDeadline(key=ends),) if kept.is_two_phase else ()
    effects = (stop_writer(kept),)
    return Decision(reply=_reply(kept), records=(stored(kept),), volatile=volatile, effects=effects)


def _held(request: InitProducerIdRequest) -> Identity | None:
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return Identity(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))


def _timeout_ms(request: InitProducerIdRequest) -> int:
    return TWO_PHASE_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms


def _reply(transaction: Transaction) -> InitProducerIdResponse:
    reply = InitProducerIdResponse(
        producer_id=transaction.identity.producer_id, producer_epoch=transaction.identity.epoch
    )
    if transaction.is_kept:
        reply.ongoing_txn_producer_id = transaction.writer.producer_id
        reply.ongoing_txn_producer_epoch = transaction.writer.epoch
    return reply


def _refuse(error: ErrorCode) -> Decision[TransactionStored, InitProducerIdResponse]:
    return Decision.refuse(_refused(error))


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH)

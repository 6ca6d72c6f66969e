"""Who was fenced, who took over, and which transactions their coordinator aborted.

Found by comparing a transaction before and after a decision, and from the reply. Nothing is decided
here: the coordinator logs what it finds.
"""

from collections.abc import Iterator
from enum import Enum

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.records.layout import NO_PRODUCER_ID
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.transactions.state import Identity, Transaction, TransactionState
from penstock.transactions.timers import TransactionEnds
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCING = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)

Trigger = InitProducerIdRequest | EndTxnRequest | Enlist | TransactionEnds


class AbortedBecause(Enum):
    TIMED_OUT = "timed_out"
    ANOTHER_PRODUCER = "another_producer"
    SAME_PRODUCER = "same_producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TookOver:
    transactional_id: str
    held: Identity  # which is fenced from here on
    gained: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    transactional_id: str
    producer: Identity
    because: AbortedBecause
    open_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    transactional_id: str
    producer: Identity  # the zombie
    current: Identity | None
    api: str
    error: ErrorCode


def explained(
    before: Transaction | None, after: Transaction | None, trigger: Trigger, reply: object
) -> Iterator[TookOver | Aborted | Fenced]:
    """`after` is the transaction once the decision is applied; `reply` what was decided to say."""
    error = _error_of(reply)
    if error in FENCING:
        producer = _producer_of(trigger)
        if producer is not None:
            yield Fenced(
                transactional_id=transactional_id_of(trigger),
                producer=producer,
                current=None if after is None else after.identity,
                api=_api_of(trigger),
                error=error,
            )
        return
    if before is None or after is None or before is after:
        return
    by_client = isinstance(trigger, InitProducerIdRequest)
    # Who names its own id goes on after an error (KIP-360); who names none is a new client.
    by_same = isinstance(trigger, InitProducerIdRequest) and trigger.producer_id != NO_PRODUCER_ID
    if (by_client or isinstance(trigger, TransactionEnds)) and _aborts(before, after):
        yield Aborted(
            transactional_id=before.transactional_id,
            producer=before.identity,
            because=_why_aborted(by_client=by_client, by_same=by_same),
            open_ms=max(after.last_update_ms - (before.start_ms or after.last_update_ms), 0),
            timeout_ms=before.timeout_ms,
        )
    elif (
        by_client and not by_same and error is ErrorCode.NONE and after.identity != before.identity
    ):
        yield TookOver(
            transactional_id=before.transactional_id, held=before.identity, gained=after.identity
        )


def transactional_id_of(trigger: Trigger) -> str:
    return trigger.transactional_id or ""


def _why_aborted(*, by_client: bool, by_same: bool) -> AbortedBecause:
    if not by_client:
        return AbortedBecause.TIMED_OUT
    return AbortedBecause.SAME_PRODUCER if by_same else AbortedBecause.ANOTHER_PRODUCER


def _aborts(before: Transaction, after: Transaction) -> bool:
    return (
        before.state is TransactionState.ONGOING and after.state is TransactionState.PREPARE_ABORT
    )


def _error_of(reply: object) -> ErrorCode:
    if isinstance(reply, InitProducerIdResponse | EndTxnResponse):
        return ErrorCode(reply.error_code)
    return reply.error if isinstance(reply, Enlisted) else ErrorCode.NONE


def _producer_of(trigger: Trigger) -> Identity | None:
    if isinstance(trigger, TransactionEnds):
        return None
    if isinstance(trigger, Enlist):
        return trigger.producer
    return Identity(ProducerId(trigger.producer_id), ProducerEpoch(trigger.producer_epoch))


def _api_of(trigger: Trigger) -> str:
    if isinstance(trigger, Enlist):
        return "AddPartitionsToTxn"
    return "EndTxn" if isinstance(trigger, EndTxnRequest) else "InitProducerId"

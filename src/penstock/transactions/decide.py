"""The transaction coordinator's table of requests: start here.

A shard is run by `machine/host`. Once its journal is replayed and the host is open, `decide_loaded`
is submitted first, for each step of `to_resume`; from then on `decide` handles requests and reports
of markers, and `decide_due` is called whenever a deadline has passed.
"""

from typing import assert_never

from penstock.machine.decision import Decision
from penstock.transactions.begin import decide_init
from penstock.transactions.decision_context import Asked, DecisionContext, NeedsProducerId
from penstock.transactions.describe import (
    DescribeTransaction,
    ListTransactions,
    decide_describe,
    decide_list,
)
from penstock.transactions.enlist import Enlist, Enlisted, decide_enlist
from penstock.transactions.finish import decide_end
from penstock.transactions.markers import (
    MarkersNoted,
    MarkersWritten,
    ToResume,
    decide_written,
    resume,
)
from penstock.transactions.records import TransactionStored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.timeouts import (
    changes_after_load,
    decide_ids_expired,
    decide_transaction_ended,
)
from penstock.transactions.timers import IdsExpire, TransactionEnds
from penstock.wire.messages.describe_transactions import TransactionState
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.list_transactions import ListTransactionsResponse

TransactionRequest = (
    InitProducerIdRequest
    | Enlist
    | EndTxnRequest
    | MarkersWritten
    | DescribeTransaction
    | ListTransactions
)
TransactionReply = (
    InitProducerIdResponse
    | NeedsProducerId
    | Enlisted
    | EndTxnResponse
    | MarkersNoted
    | TransactionState
    | ListTransactionsResponse
)


def decide(
    shard: TransactionShard,
    context: DecisionContext,
    request: TransactionRequest,
    *,
    version: int = 0,
) -> Decision[TransactionStored, TransactionReply]:
    """The coordinator's decision about a request; `version` is that of the client's message."""
    match request:
        case InitProducerIdRequest():
            return decide_init(shard, context, Asked(request=request, version=version))
        case Enlist():
            return decide_enlist(shard, context, Asked(request=request, version=version))
        case EndTxnRequest():
            return decide_end(shard, context, Asked(request=request, version=version))
        case MarkersWritten():
            return decide_written(shard, context, request)
        case DescribeTransaction():
            return decide_describe(shard, request)
        case ListTransactions():
            return decide_list(shard, context, request)
        case _:
            assert_never(request)


def decide_loaded(
    shard: TransactionShard, context: DecisionContext, some: ToResume
) -> Decision[TransactionStored, None]:
    """What a shard resumes after replay: its deadlines, and markers that are not written yet."""
    return Decision(
        reply=None,
        volatile=changes_after_load(shard, context, some.transactional_ids),
        effects=resume(shard, some),
    )


def decide_due(
    shard: TransactionShard, context: DecisionContext
) -> Decision[TransactionStored, None] | None:
    """The decision about the earliest deadline that has passed; None when there is none."""
    match shard.deadlines.due(context.monotonic_ms):
        case TransactionEnds() as key:
            return decide_transaction_ended(shard, context, key)
        case IdsExpire():
            return decide_ids_expired(shard, context)
        case None:
            return None
        case never:
            assert_never(never)

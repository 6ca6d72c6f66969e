"""DescribeTransactions and ListTransactions.

A list is gathered from all shards of all coordinators, some ids at a time.
"""

from collections.abc import Callable, Iterable

from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.decision_context import DecisionContext
from penstock.transactions.records import TransactionStored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import BY_WORD, Transaction
from penstock.transactions.state import TransactionState as State
from penstock.wire.messages import list_transactions
from penstock.wire.messages.describe_transactions import TopicData, TransactionState
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransaction:
    """One of the ids of a DescribeTransactions."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a list. Built once per request: a client may send thousands of each kind."""

    states: frozenset[State]
    unknown_states: tuple[str, ...]  # none of them, nor of `states`: any
    producer_ids: frozenset[int]  # none: any
    longer_than_ms: int  # below 0: any
    matches: Callable[[str], bool] | None  # None: any


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """Lists those of some ids that pass the filters: a shard may have too many ids for one step."""

    filters: Filters
    transactional_ids: tuple[str, ...]


def filters_of(
    request: ListTransactionsRequest, *, matches: Callable[[str], bool] | None = None
) -> Filters:
    """`matches` tells whether an id matches the request's pattern."""
    words = dict.fromkeys(request.state_filters)
    return Filters(
        states=frozenset(BY_WORD[word] for word in words if word in BY_WORD),
        unknown_states=tuple(word for word in words if word not in BY_WORD),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        matches=matches,
    )


def decide_describe(
    shard: TransactionShard, request: DescribeTransaction
) -> Decision[TransactionStored, TransactionState]:
    transactional_id = request.transactional_id
    transaction = shard.transactions.get(transactional_id)
    if not transactional_id:
        return _not_described(transactional_id, ErrorCode.INVALID_REQUEST)
    if transaction is None:
        return _not_described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    unmarked = shard.unmarked.get(transactional_id)
    partitions = transaction.partitions if unmarked is None else unmarked.partitions
    described = TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.word,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=-1 if transaction.start_ms is None else transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=_by_topic(partitions),
    )
    return Decision(reply=described)


def decide_list(
    shard: TransactionShard, context: DecisionContext, asked: ListTransactions
) -> Decision[TransactionStored, ListTransactionsResponse]:
    listed = []
    for transactional_id in asked.transactional_ids:
        transaction = shard.transactions.get(transactional_id)
        if transaction is not None and _passes(transaction, asked.filters, context.now_ms):
            listed.append(
                list_transactions.TransactionState(
                    transactional_id=transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.word,
                )
            )
    return Decision(reply=ListTransactionsResponse(transaction_states=listed))


def listed_together(
    filters: Filters, replies: Iterable[ListTransactionsResponse]
) -> ListTransactionsResponse:
    """One reply made of those of all shards."""
    together = ListTransactionsResponse(unknown_state_filters=list(filters.unknown_states))
    for reply in replies:
        together.transaction_states.extend(reply.transaction_states)
    return together


def _passes(transaction: Transaction, filters: Filters, now_ms: int) -> bool:
    any_state = not filters.states and not filters.unknown_states
    # As in Apache Kafka, what never began has lasted since the beginning of time.
    lasted_ms = now_ms - (transaction.start_ms or 0)
    return (
        (not filters.producer_ids or transaction.producer_id in filters.producer_ids)
        and (any_state or transaction.state in filters.states)
        and (filters.longer_than_ms < 0 or lasted_ms > filters.longer_than_ms)
        and (filters.matches is None or filters.matches(transaction.transactional_id))
    )


def _not_described(
    transactional_id: str, error: ErrorCode
) -> Decision[TransactionStored, TransactionState]:
    return Decision.refuse(TransactionState(transactional_id=transactional_id, error_code=error))


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[TopicData]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicData(topic=topic, partitions=ids) for topic, ids in topics.items()]

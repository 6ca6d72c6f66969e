"""What people may see: DescribeTransactions and ListTransactions.

A list is gathered from all shards of all coordinators, each with its own reply.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.transactions.asking import Situation
from penstock.transactions.records import TransactionStored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import BY_WORD, Transaction
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
class ListTransactions:
    """The request, with its pattern made ready by whoever knows Kafka's kind of expressions."""

    request: ListTransactionsRequest
    matches: Callable[[str], bool] | None = None


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
    shard: TransactionShard, situation: Situation, asked: ListTransactions
) -> Decision[TransactionStored, ListTransactionsResponse]:
    request = asked.request
    states = {BY_WORD[word] for word in request.state_filters if word in BY_WORD}
    producer_ids = frozenset(request.producer_id_filters)
    longer_than_ms = request.duration_filter

    def is_wanted(transaction: Transaction) -> bool:
        # As in Apache Kafka, what never began has lasted since the beginning of time.
        lasted_ms = situation.now_ms - (transaction.start_ms or 0)
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not request.state_filters or transaction.state in states)
            and (longer_than_ms < 0 or lasted_ms > longer_than_ms)
            and (asked.matches is None or asked.matches(transaction.transactional_id))
        )

    listed = [
        list_transactions.TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.word,
        )
        for transaction in shard.transactions.values()
        if is_wanted(transaction)
    ]
    unknown = [word for word in request.state_filters if word not in BY_WORD]
    return Decision(
        reply=ListTransactionsResponse(
            unknown_state_filters=list(dict.fromkeys(unknown)), transaction_states=listed
        )
    )


def listed_together(replies: Iterable[ListTransactionsResponse]) -> ListTransactionsResponse:
    """One reply for many shards; the first that failed speaks for all."""
    together = ListTransactionsResponse()
    for reply in replies:
        if reply.error_code != ErrorCode.NONE:
            return reply
        together.unknown_state_filters = reply.unknown_state_filters
        together.transaction_states.extend(reply.transaction_states)
    return together


def _not_described(
    transactional_id: str, error: ErrorCode
) -> Decision[TransactionStored, TransactionState]:
    return Decision.refuse(TransactionState(transactional_id=transactional_id, error_code=error))


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[TopicData]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicData(topic=topic, partitions=ids) for topic, ids in topics.items()]

"""Partitions of a transaction: adding the first one begins it.

Clients of generation 1 add the partitions that they are about to write to (AddPartitionsToTxn up to
version 3, AddOffsetsToTxn for the partition of a group's offsets). For clients of generation 2 the
broker that receives the batch does, and for both it asks before the first write whether the
partition is in the transaction (`verify_only`, KIP-890). Each of these is an `Enlist` to the shard
of the transactional id.
"""

from collections.abc import Mapping
from dataclasses import field

from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.changes import SetDeadline
from penstock.transactions.decision_context import Asked, DecisionContext, fenced
from penstock.transactions.finish import GENERATION_2
from penstock.transactions.records import TransactionStored, stored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Identity, Transaction, TransactionState
from penstock.transactions.timers import TransactionEnds
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import (
    NO_COORDINATOR_EPOCH,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

FENCED_FROM_VERSION = 2
BATCHED_FROM_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Enlist:
    """Adds partitions to a producer's transaction, or with `verify_only` asks whether they are in
    it.
    """

    transactional_id: str
    producer: Identity
    partitions: tuple[TopicPartition, ...]
    verify_only: bool = False
    client_version: int = 0  # 2 where the broker adds what a client writes to, else 0
    # In which the broker that asks leads the partitions; nothing where a client asks.
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enlisted:
    """The error code of each partition, and the one for the whole request."""

    errors: Mapping[TopicPartition, ErrorCode]
    error: ErrorCode  # of a request that names no partition too
    coordinator_epoch: int | None = None  # of whoever answers, for brokers that ask


def decide_enlist(
    shard: TransactionShard, context: DecisionContext, asked: Asked[Enlist]
) -> Decision[TransactionStored, Enlisted]:
    request = asked.request
    transaction = shard.transactions.get(request.transactional_id)
    error = _error_in(transaction, asked)
    if error is not None:
        return Decision.refuse(_all(shard, request, error))
    assert transaction is not None
    if request.verify_only:
        return Decision.refuse(_verified(shard, transaction, request))
    added = set(request.partitions).difference(transaction.partitions)
    if not added:
        return Decision.refuse(_all(shard, request, ErrorCode.NONE))
    begins = transaction.state is not TransactionState.ONGOING
    enlisted = transaction.become(
        TransactionState.ONGOING,
        # The client has received its identity: the previous one is fenced from here on.
        previous_producer_id=None,
        partitions=tuple(sorted(added.union(transaction.partitions))),
        start_ms=context.now_ms if begins else transaction.start_ms,
        last_update_ms=context.now_ms,
        client_version=request.client_version,
    )
    volatile: tuple[object, ...] = ()
    if begins and not enlisted.is_two_phase:
        ends_ms = context.monotonic_ms + enlisted.timeout_ms
        ends = TransactionEnds(enlisted.transactional_id)
        volatile = (SetDeadline(key=ends, at_ms=ends_ms),)
    reply = _all(shard, request, ErrorCode.NONE)
    return Decision(reply=reply, records=(stored(enlisted),), volatile=volatile)


def _error_in(transaction: Transaction | None, asked: Asked[Enlist]) -> ErrorCode | None:
    request = asked.request
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if transaction is None or transaction.identity.producer_id != request.producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not transaction.is_held_by(request.producer):
        return fenced(asked.version, from_version=FENCED_FROM_VERSION)
    if transaction.is_decided:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.is_kept:
        return ErrorCode.INVALID_TXN_STATE
    return None


def _verified(shard: TransactionShard, transaction: Transaction, request: Enlist) -> Enlisted:
    within = frozenset(transaction.partitions)
    errors = {
        partition: ErrorCode.NONE if partition in within else ErrorCode.TRANSACTION_ABORTABLE
        for partition in request.partitions
    }
    return Enlisted(
        errors=errors, error=ErrorCode.NONE, coordinator_epoch=_epoch_told(shard, request)
    )


def _all(shard: TransactionShard, request: Enlist, error: ErrorCode) -> Enlisted:
    errors = dict.fromkeys(request.partitions, error)
    return Enlisted(errors=errors, error=error, coordinator_epoch=_epoch_told(shard, request))


def _epoch_told(shard: TransactionShard, request: Enlist) -> int | None:
    """To brokers that tell theirs; others are answered as Apache Kafka does."""
    return shard.coordinator_epoch if request.leader_epochs else None


def enlistments(request: AddPartitionsToTxnRequest, *, version: int) -> tuple[Enlist, ...]:
    """The Enlist of each transaction in either form of the request, in its order."""
    if version < BATCHED_FROM_VERSION:
        only = Enlist(
            transactional_id=request.v3_and_below_transactional_id,
            producer=_identity(
                request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
            ),
            partitions=_partitions(request.v3_and_below_topics),
        )
        return (only,)
    return tuple(
        Enlist(
            transactional_id=transaction.transactional_id,
            producer=_identity(transaction.producer_id, transaction.producer_epoch),
            partitions=_partitions(transaction.topics),
            verify_only=transaction.verify_only,
            client_version=GENERATION_2,
            leader_epochs=_leader_epochs(transaction.topics),
        )
        for transaction in request.transactions
    )


def enlistment_of_offsets(request: AddOffsetsToTxnRequest, *, partition: TopicPartition) -> Enlist:
    """`partition` is the one that holds the offsets of the request's group."""
    return Enlist(
        transactional_id=request.transactional_id,
        producer=_identity(request.producer_id, request.producer_epoch),
        partitions=(partition,),
    )


def enlist_reply(
    results: list[tuple[str, Enlisted]], *, version: int
) -> AddPartitionsToTxnResponse:
    """The reply in the form of the request: each transactional id with its errors, in order."""
    if version < BATCHED_FROM_VERSION:
        [(_, answer)] = results
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(answer.errors))
    by_transaction = [
        AddPartitionsToTxnResult(
            transactional_id=transactional_id,
            topic_results=_by_topic(answer.errors),
            coordinator_epoch=(
                NO_COORDINATOR_EPOCH
                if answer.coordinator_epoch is None
                else answer.coordinator_epoch
            ),
        )
        for transactional_id, answer in results
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=by_transaction)


def _by_topic(
    errors: Mapping[TopicPartition, ErrorCode],
) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), error in errors.items():
        result = AddPartitionsToTxnPartitionResult(
            partition_index=partition, partition_error_code=error
        )
        topics.setdefault(topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
        for topic, results in topics.items()
    ]


def _leader_epochs(topics: list[AddPartitionsToTxnTopic]) -> dict[TopicPartition, int]:
    """Where they are named. Of a partition that is named twice the latest: its leader may have been
    elected again meanwhile.
    """
    epochs: dict[TopicPartition, int] = {}
    for topic in topics:
        for partition, epoch in zip(topic.partitions, topic.leader_epochs, strict=False):
            name = TopicPartition(topic.name, partition)
            epochs[name] = max(epoch, epochs.get(name, epoch))
    return epochs


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    """Each once, in the order of the request."""
    return tuple(
        dict.fromkeys(
            TopicPartition(topic.name, partition)
            for topic in topics
            for partition in topic.partitions
        )
    )


def _identity(producer_id: int, epoch: int) -> Identity:
    return Identity(ProducerId(producer_id), ProducerEpoch(epoch))

"""The records of the coordinator's journal, in Kafka's form, so that its own tools read ours.

A record of `__transaction_state` has a transactional id as its key, so that compaction keeps the
last of each; no value is a tombstone.

    key     int16   version of the key: 0
            ...     TransactionLogKey
    value   int16   version of the value: 1, or 0 from before the tagged fields
            ...     TransactionLogValue

No other fields are needed: a transaction without time-out stores the largest one, and the epoch of
a previous identity follows from the present one.
"""

import struct

from penstock.model.error import PenstockError
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.state import (
    LAST_EPOCH,
    NEVER_STORED,
    OPEN,
    Identity,
    Transaction,
    TransactionState,
)
from penstock.wire import codec
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

KEY_VERSION = 0
VALUE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStored:
    """The state of a transactional id; None is a tombstone."""

    transactional_id: str
    value: Transaction | None


class UnreadableTransactionRecord(PenstockError):
    """A record of the coordinator's journal that is damaged, or of an unknown newer version."""


def stored(transaction: Transaction) -> TransactionStored:
    return TransactionStored(transactional_id=transaction.transactional_id, value=transaction)


def encode(record: TransactionStored) -> tuple[bytes, bytes | None]:
    """Key and value of one record."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    key_bytes = struct.pack(">h", KEY_VERSION) + codec.encode(key, KEY_VERSION)
    if record.value is None:
        return key_bytes, None
    value = _value_of(record.value)
    return key_bytes, struct.pack(">h", VALUE_VERSION) + codec.encode(value, VALUE_VERSION)


def decode(key: bytes, value: bytes | None) -> TransactionStored | None:
    """The record; None for an unknown kind. UnreadableTransactionRecord when damaged."""
    if len(key) < 2:
        raise UnreadableTransactionRecord(f"invalid key of {len(key)} bytes")
    (version,) = struct.unpack_from(">h", key)
    if version != KEY_VERSION:
        return None
    try:
        of = codec.decode_exact(TransactionLogKey, KEY_VERSION, memoryview(key), 2)
        if value is None:
            return TransactionStored(transactional_id=of.transactional_id, value=None)
        return stored(_transaction_of(of.transactional_id, _read_value(value)))
    except MalformedMessage as error:
        raise UnreadableTransactionRecord(str(error)) from error


def _read_value(value: bytes) -> TransactionLogValue:
    if len(value) < 2:
        raise UnreadableTransactionRecord(f"invalid value of {len(value)} bytes")
    (version,) = struct.unpack_from(">h", value)
    if version not in TransactionLogValue.VERSIONS:
        raise UnreadableTransactionRecord(f"TransactionLogValue has no version {version}")
    return codec.decode_exact(TransactionLogValue, version, memoryview(value), 2)


def _value_of(transaction: Transaction) -> TransactionLogValue:
    following, previous = transaction.next_identity, transaction.previous_producer_id
    is_empty = transaction.state is TransactionState.EMPTY
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=-1 if previous is None else previous,
        next_producer_id=-1 if following is None else following.producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=-1 if following is None else following.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if is_empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=_or_minus_one(transaction.start_ms),
        client_transaction_version=transaction.client_version,
    )


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def _transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """The transaction of a value; UnreadableTransactionRecord when it is inconsistent."""
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise UnreadableTransactionRecord(f"unknown state {value.transaction_status}") from error
    epoch = max(value.producer_epoch, value.next_producer_epoch)
    is_beyond = state is TransactionState.ONGOING and epoch > LAST_EPOCH
    if state in NEVER_STORED or value.producer_id < 0 or value.producer_epoch < 0 or is_beyond:
        raise UnreadableTransactionRecord(f"{transactional_id}: {value}")
    is_open = state in OPEN
    partitions = {
        TopicPartition(topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    }
    previous = value.previous_producer_id
    start_ms = value.transaction_start_timestamp_ms
    if is_open and start_ms < 0:
        # Without any time it has been open since ever, and so its time-out is over.
        start_ms = max(0, value.transaction_last_update_timestamp_ms)
    return Transaction(
        transactional_id=transactional_id,
        producer_id=ProducerId(value.producer_id),
        producer_epoch=ProducerEpoch(value.producer_epoch),
        next_identity=_next_identity(value) if is_open else None,
        previous_producer_id=None if previous < 0 else ProducerId(previous),
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=tuple(sorted(partitions)) if is_open else (),
        start_ms=None if start_ms < 0 else start_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _next_identity(value: TransactionLogValue) -> Identity | None:
    if value.next_producer_id < 0:
        return None
    # Apache Kafka leaves the epoch out where another producer id begins with its first.
    epoch = max(value.next_producer_epoch, 0)
    return Identity(ProducerId(value.next_producer_id), ProducerEpoch(epoch))


def _or_minus_one(value: int | None) -> int:
    return -1 if value is None else value

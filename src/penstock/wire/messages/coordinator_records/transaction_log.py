"""A transactional id, whole: its producer, and the transaction that it is in or last was in."""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nullable,
    string,
    tagged,
)


class TransactionLogKey(Message, key=0, versions="0"):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32())


class TransactionLogValue(Message, key=0, versions="0-1", flexible_from=1):
    producer_id: int = int64()
    previous_producer_id: int = tagged(0, int64("1+", default=-1))
    next_producer_id: int = tagged(1, int64("1+", default=-1))
    producer_epoch: int = int16()
    next_producer_epoch: int = tagged(3, int16("1+", default=-1))
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = nullable(array(PartitionsSchema))
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = tagged(2, int16("1+"))

"""How decisions about groups are written: one batch each.

Offsets of a transaction stand in a batch of its producer, and its end is a control batch.
"""

from collections.abc import Sequence

from penstock.broker.coordinators.partition_journal import Place
from penstock.groups.records import (
    GroupRecord,
    KeyedRecord,
    OffsetCommitted,
    TransactionalOffset,
    TransactionEnded,
    encode,
)
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.records.record import Record


def group_batch(records: Sequence[GroupRecord], place: Place, *, codec: Codec) -> bytearray:
    first = records[0]
    if isinstance(first, TransactionEnded):
        assert len(records) == 1, records
        return end_transaction_batch(
            EndTransaction(committed=first.committed, coordinator_epoch=first.coordinator_epoch),
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            timestamp_ms=place.now_ms,
            base_offset=place.base_offset,
            leader_epoch=place.leader_epoch,
        )
    transactional = isinstance(first, TransactionalOffset)
    return build_batch(
        [Record(*encode(_keyed(record)), timestamp_ms=place.now_ms) for record in records],
        base_offset=place.base_offset,
        leader_epoch=place.leader_epoch,
        codec=codec,
        producer_id=first.producer_id if isinstance(first, TransactionalOffset) else NO_PRODUCER_ID,
        producer_epoch=(
            first.producer_epoch if isinstance(first, TransactionalOffset) else NO_PRODUCER_EPOCH
        ),
        transactional=transactional,
    )


def _keyed(record: GroupRecord) -> KeyedRecord:
    assert not isinstance(record, TransactionEnded), record
    if not isinstance(record, TransactionalOffset):
        return record
    return OffsetCommitted(
        group=record.group, topic=record.topic, partition=record.partition, value=record.value
    )

"""Control records: the ones that brokers write among the producers' and clients never see.

    key    version int16 | type int16
    value  of an end-transaction marker: version int16 | coordinator epoch int32
           of the others: a message of the protocol, encoded by `wire`

A control batch is never compressed and holds one record, except the first batch of a metadata log
or of a snapshot of it: there the quorum's version and its voters follow the first record.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch, Offset
from penstock.records.build import build_batch
from penstock.records.errors import CorruptBatch
from penstock.records.layout import FIRST_OFFSET
from penstock.records.record import Record


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """How a transaction ended, in one partition of those that it wrote to."""

    committed: bool
    coordinator_epoch: int


def control_type(record: Record) -> ControlType | None:
    """What a record of a control batch is; None for a type not known here, to be passed over."""
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptBatch("a control record without a type")
    version, number = CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"a control record of version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return None


def control_record(kind: ControlType, value: bytes, *, timestamp_ms: int) -> Record:
    return Record(CONTROL_KEY.pack(CONTROL_VERSION, kind), value, timestamp_ms=timestamp_ms)


def read_end_transaction(record: Record) -> EndTransaction | None:
    """The marker that a control record is, or None when it is something else."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < END_TRANSACTION.size:
        raise CorruptBatch("an end-transaction marker without a coordinator epoch")
    version, coordinator_epoch = END_TRANSACTION.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch(f"an end-transaction marker of version {version}")
    return EndTransaction(committed=kind is ControlType.COMMIT, coordinator_epoch=coordinator_epoch)


def end_transaction_batch(
    marker: EndTransaction,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    timestamp_ms: int,
    base_offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a producer's transaction in a partition."""
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    value = END_TRANSACTION.pack(CONTROL_VERSION, marker.coordinator_epoch)
    return build_batch(
        (control_record(kind, value, timestamp_ms=timestamp_ms),),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_batch(
    kind: ControlType,
    value: bytes,
    *,
    timestamp_ms: int,
    base_offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """A control batch outside of any transaction, such as the leader change of a new epoch."""
    return control_batch_of_many(
        [(kind, value)],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def control_batch_of_many(
    entries: Sequence[tuple[ControlType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """The same with several records: the first batch of a metadata log or of a snapshot."""
    records: list[Record] = []
    for kind, value in entries:
        assert kind not in (ControlType.ABORT, ControlType.COMMIT), kind
        records.append(control_record(kind, value, timestamp_ms=timestamp_ms))
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, control=True)


CONTROL_VERSION = 0
CONTROL_KEY = Struct(">hh")
END_TRANSACTION = Struct(">hi")

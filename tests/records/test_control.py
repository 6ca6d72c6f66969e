"""Control records say what they are, and what is not one is noticed."""

import pytest

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch
from penstock.records.batch import BatchView
from penstock.records.control import (
    ControlType,
    EndTransaction,
    control_batch,
    control_batch_of_many,
    control_type,
    end_transaction_batch,
    read_end_transaction,
)
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.record import Record


@pytest.mark.parametrize("committed", [True, False])
def test_marker_comes_back_as_written(committed: bool) -> None:
    marker = EndTransaction(committed=committed, coordinator_epoch=13)
    data = end_transaction_batch(
        marker, producer_id=ProducerId(5), producer_epoch=ProducerEpoch(1), timestamp_ms=99
    )
    batch = BatchView(memoryview(data))
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, -1)
    (record,) = records_of(batch)
    assert read_end_transaction(record) == marker


def test_marker_has_the_bytes_that_kafka_writes() -> None:
    data = end_transaction_batch(
        EndTransaction(committed=True, coordinator_epoch=2),
        producer_id=ProducerId(5),
        producer_epoch=ProducerEpoch(1),
        timestamp_ms=99,
    )
    (record,) = records_of(BatchView(memoryview(data)))
    assert record.key == bytes.fromhex("00000001")
    assert record.value == bytes.fromhex("000000000002")


def test_leader_change_is_no_transaction_marker() -> None:
    data = control_batch(ControlType.LEADER_CHANGE, b"message", timestamp_ms=1)
    batch = BatchView(memoryview(data))
    (record,) = records_of(batch)
    assert batch.is_control
    assert not batch.is_transactional
    assert control_type(record) is ControlType.LEADER_CHANGE
    assert record.value == b"message"
    assert read_end_transaction(record) is None


def test_first_batch_of_a_snapshot_has_the_bytes_that_kafka_writes() -> None:
    """`kafka-storage format --standalone` wrote it as the first checkpoint of a quorum."""
    header = bytes.fromhex("0000000001a1e25e500100")
    kraft_version = bytes.fromhex("0000000100")
    voters = bytes.fromhex(
        "00000200000001425095f43fc740ada79069527dd2ec12"
        "020b434f4e54524f4c4c45520a3132372e302e302e3173350000000001000000"
    )
    data = control_batch_of_many(
        [
            (ControlType.SNAPSHOT_HEADER, header),
            (ControlType.KRAFT_VERSION, kraft_version),
            (ControlType.KRAFT_VOTERS, voters),
        ],
        timestamp_ms=0x1A1E25E5074,
        leader_epoch=LeaderEpoch(0),
    )
    assert data.hex() == (
        "00000000000000000000009a00000000029c29ee23002000000002000001a1e25e5074000001a1e25e5074"
        "ffffffffffffffffffffffffffff00000003"
        f"2a000000080000000316{header.hex()}00"
        f"1e00000208000000050a{kraft_version.hex()}00"
        f"820100000408000000066e{voters.hex()}00"
    )


def test_type_of_a_later_version_is_passed_over() -> None:
    assert control_type(Record(b"\x00\x00\x00\x63", b"")) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_control_record_without_a_type_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        control_type(Record(key, b""))


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"])
def test_marker_without_a_coordinator_epoch_is_corrupt(value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read_end_transaction(Record(b"\x00\x00\x00\x00", value))

"""A view shows a batch in place and changes only what the leader may change."""

import pytest

from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchHeader, BatchView, batches, whole_batches
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.layout import HEADER_BYTES, TimestampType
from penstock.records.record import Record

THREE = [Record(b"k", b"v%d" % i, timestamp_ms=1000 + i) for i in range(3)]


def three_records(**options: object) -> bytearray:
    return build_batch(THREE, **options)  # type: ignore[arg-type]  # each test names real options


def test_view_tells_every_field_of_the_header() -> None:
    data = three_records(
        base_offset=Offset(70),
        codec=Codec.GZIP,
        leader_epoch=LeaderEpoch(4),
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        transactional=True,
    )
    batch = BatchView(memoryview(data))
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (70, 72, 73)
    assert (batch.size_bytes, batch.magic, batch.leader_epoch) == (len(data), 2, 4)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 1002)
    assert (batch.producer_id, batch.producer_epoch) == (9, 2)
    assert (batch.base_sequence, batch.last_sequence) == (5, 7)
    assert (batch.record_count, batch.last_offset_delta) == (3, 2)
    assert batch.codec is Codec.GZIP
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.delete_horizon_ms is None
    assert batch.checksum_matches()


def test_sequence_begins_again_after_the_largest() -> None:
    data = three_records(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert BatchView(memoryview(data)).last_sequence == 0


def test_batch_without_producer_has_no_last_sequence() -> None:
    assert BatchView(memoryview(three_records())).last_sequence == -1


def test_assigning_an_offset_leaves_the_checksum_right() -> None:
    data = three_records()
    BatchView(memoryview(data)).assign(base_offset=Offset(12345), leader_epoch=LeaderEpoch(7))
    again = BatchView(memoryview(data))
    assert (again.base_offset, again.leader_epoch) == (12345, 7)
    assert again.checksum_matches()
    assert [record.offset for record in records_of(again)] == [12345, 12346, 12347]


def test_every_flipped_bit_under_the_checksum_is_noticed() -> None:
    data = three_records()
    for position in range(21, len(data)):
        data[position] ^= 1
        assert not BatchView(memoryview(data)).checksum_matches()
        data[position] ^= 1


def test_batches_are_found_one_after_the_other() -> None:
    data = three_records() + three_records(base_offset=Offset(3))
    found = list(batches(memoryview(data)))
    assert [batch.base_offset for batch in found] == [0, 3]
    assert b"".join(batch.view for batch in found) == data


def test_cut_off_last_batch_is_corrupt_unless_expected() -> None:
    one = three_records()
    for cut in range(1, len(one)):
        data = memoryview(one + one[:cut])
        assert len(list(whole_batches(data))) == 1
        with pytest.raises(CorruptBatch):
            list(batches(data))


def test_header_alone_is_read_from_the_start_of_a_batch() -> None:
    data = b"xx" + three_records(base_offset=Offset(5))
    header = BatchHeader(data[: 2 + HEADER_BYTES], 2)
    assert (header.base_offset, header.size_bytes) == (5, len(data) - 2)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 2**31 - 1])
def test_senseless_length_is_corrupt(length: int) -> None:
    data = three_records()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        list(batches(memoryview(data)))


def test_unknown_magic_and_codec_are_corrupt() -> None:
    data = three_records()
    data[22] |= 7
    with pytest.raises(CorruptBatch, match="codec 7"):
        _ = BatchView(memoryview(data)).codec
    data[16] = 3
    with pytest.raises(CorruptBatch, match="magic 3"):
        BatchView(memoryview(data))


def test_delete_horizon_is_the_base_timestamp_when_the_flag_is_set() -> None:
    data = three_records()
    data[22] |= 0x40
    assert BatchView(memoryview(data)).delete_horizon_ms == 1000

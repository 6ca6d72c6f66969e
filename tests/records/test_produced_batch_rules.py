"""Each rule for a produced batch, and the code that its producer is told."""

from dataclasses import replace

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.limit import RECORD_ERRORS_MAX
from penstock.records.batch import BatchView
from penstock.records.build import build_batch, seal_batch
from penstock.records.checksum import crc32c
from penstock.records.compression import Codec, compress
from penstock.records.errors import InvalidBatch
from penstock.records.iterate import records_of
from penstock.records.layout import FIRST_OFFSET, TimestampType
from penstock.records.record import Record
from penstock.records.twin.write import encode_record
from penstock.records.validate import AppendRules, check_produced

NOW = 1_700_000_000_000
RECORDS = [Record(b"k%d" % i, b"value %d" % i, timestamp_ms=NOW - i) for i in range(10)]
RULES = AppendRules(
    max_message_bytes=1_048_588,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=2**63 - 1,
    timestamp_after_max_ms=3_600_000,
    compacted=False,
    codec=None,
    codec_level=None,
    now_ms=NOW,
)
APPEND_TIME = replace(RULES, timestamp_type=TimestampType.LOG_APPEND_TIME)


def sealed(
    payload: bytes, *, count: int = 1, codec: Codec = Codec.NONE, attributes: int = 0
) -> bytearray:
    """A batch around any payload, right in everything that the payload is not."""
    return seal_batch(
        compress(codec, payload),
        base_offset=FIRST_OFFSET,
        leader_epoch=-1,  # type: ignore[arg-type]  # as on the wire
        attributes=attributes | codec,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=ProducerId(-1),
        producer_epoch=ProducerEpoch(-1),
        base_sequence=-1,
        record_count=count,
    )


def patched(data: bytearray, position: int, value: int, size: int) -> bytearray:
    """With one field overwritten and the checksum put right again."""
    data[position : position + size] = value.to_bytes(size, "big", signed=True)
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


def refusal(data: bytes | bytearray, rules: AppendRules = RULES) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        check_produced(memoryview(bytearray(data)), rules)
    return caught.value


def one_record(key: bytes | None = b"k", *, delta_ms: int = 0, offset_delta: int = 0) -> bytes:
    return encode_record(key, b"v", (), timestamp_delta=delta_ms, offset_delta=offset_delta)


@pytest.mark.parametrize("codec", Codec)
def test_sound_batch_is_taken_as_it_is(codec: Codec) -> None:
    data = build_batch(RECORDS, codec=codec)
    before = bytes(data)
    batch = check_produced(memoryview(data), RULES)
    assert batch.view.obj is data
    assert bytes(data) == before


# Rules 1 and 2: one whole batch of format v2


def test_no_batch_at_all_is_an_invalid_record() -> None:
    assert refusal(b"").code == ErrorCode.INVALID_RECORD
    assert refusal(build_batch(RECORDS)[:-1]).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-1, 0, 13, 48])
def test_senseless_size_is_corrupt(length: int) -> None:
    data = build_batch(RECORDS)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE


def test_unknown_magic_is_corrupt_and_an_old_one_invalid() -> None:
    data = build_batch(RECORDS)
    data[16] = 3
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE
    for magic in (0, 1):
        data[16] = magic
        assert refusal(data).code == ErrorCode.INVALID_RECORD


def test_two_batches_are_invalid() -> None:
    assert refusal(build_batch(RECORDS) * 2).code == ErrorCode.INVALID_RECORD


def test_cut_off_second_batch_is_dropped() -> None:
    data = build_batch(RECORDS)
    batch = check_produced(memoryview(data + data[:50]), RULES)
    assert bytes(batch.view) == data


def test_zstd_is_refused_from_a_client_too_old_for_it() -> None:
    rules = replace(RULES, zstd_allowed=False)
    data = build_batch(RECORDS, codec=Codec.ZSTD)
    assert refusal(data, rules).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check_produced(memoryview(build_batch(RECORDS, codec=Codec.LZ4)), rules)


# Rule 3: base offset, size, checksum


def test_base_offset_other_than_zero_is_invalid() -> None:
    data = build_batch(RECORDS)
    data[7] = 1
    assert refusal(data).code == ErrorCode.INVALID_RECORD


def test_one_byte_over_the_largest_message_is_too_large() -> None:
    data = build_batch(RECORDS)
    check_produced(memoryview(data), replace(RULES, max_message_bytes=len(data)))
    refused = refusal(data, replace(RULES, max_message_bytes=len(data) - 1))
    assert refused.code == ErrorCode.MESSAGE_TOO_LARGE


def test_wrong_checksum_is_corrupt() -> None:
    data = build_batch(RECORDS)
    data[-1] ^= 1
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE


def test_size_is_looked_at_before_the_checksum_and_the_offset_before_both() -> None:
    data = build_batch(RECORDS)
    data[-1] ^= 1
    small = replace(RULES, max_message_bytes=10)
    assert refusal(data, small).code == ErrorCode.MESSAGE_TOO_LARGE
    data[7] = 1
    assert refusal(data, small).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec_is_unsupported(number: int) -> None:
    data = patched(build_batch(RECORDS), 21, number, 2)
    assert refusal(data).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# Rule 4: what the header says of the records


@pytest.mark.parametrize(("delta", "count"), [(-1, 0), (-1, 10), (9, 0), (9, -1), (9, 9), (8, 10)])
def test_offsets_and_count_that_disagree_are_invalid(delta: int, count: int) -> None:
    data = patched(patched(build_batch(RECORDS), 23, delta, 4), 57, count, 4)
    assert refusal(data).code == ErrorCode.INVALID_RECORD


def test_control_batch_of_a_client_is_invalid() -> None:
    assert refusal(build_batch(RECORDS, control=True)).code == ErrorCode.INVALID_RECORD


def test_idempotent_producer_must_number_its_batch() -> None:
    data = build_batch(RECORDS, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0))
    assert refusal(data).code == ErrorCode.INVALID_RECORD


# Rule 5: the records


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [9, 11])
def test_other_number_of_records_than_stated_is_invalid(codec: Codec, count: int) -> None:
    data = build_batch(RECORDS, codec=codec)
    data = patched(patched(data, 23, count - 1, 4), 57, count, 4)
    refused = refusal(data)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert refused.record_errors == ()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x01",
        one_record() + b"\x00",
        one_record()[:-1],
        b"\x0e" + one_record()[1:],
        b"\x12" + one_record()[1:] + b"\x00",
        b"\x14\x00\x00\x00\x02k\x02v\x02\x01\x01",
        b"\x10\x00\x00\x00\x02k\x02v\x01",
        b"\x10\x00\x00\x00\x02k\x02v\x20",
        b"\x10\x00\x00\x00\x02k\x7ev\x00",
        b"\x18\x00\x00\xff\xff\xff\xff\xff\x02k\x02v\x00",
        b"\xff" * 30,
    ],
)
def test_malformed_records_are_invalid(codec: Codec, payload: bytes) -> None:
    assert refusal(sealed(payload, codec=codec)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_records_that_cannot_be_decompressed_are_invalid(codec: Codec) -> None:
    data = sealed(one_record(), attributes=codec)
    assert refusal(data).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_bomb_is_too_large(codec: Codec) -> None:
    rules = replace(RULES, decompressed_bytes_max=1 << 20)
    data = build_batch([Record(b"k", bytes(2 << 20), timestamp_ms=NOW)], codec=codec)
    assert len(data) < 200_000
    assert refusal(data, rules).code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_compacted_topic_names_every_record_without_a_key(codec: Codec) -> None:
    records = [Record(None if i % 3 else b"k", b"v", timestamp_ms=NOW) for i in range(7)]
    data = build_batch(records, codec=codec)
    refused = refusal(data, replace(RULES, compacted=True))
    assert refused.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.record_errors] == [1, 2, 4, 5]
    check_produced(memoryview(data), RULES)


def test_empty_key_is_a_key() -> None:
    data = build_batch([Record(b"", b"v", timestamp_ms=NOW)])
    check_produced(memoryview(data), replace(RULES, compacted=True))


@pytest.mark.parametrize("codec", Codec)
def test_timestamps_out_of_bounds_are_named(codec: Codec) -> None:
    rules = replace(RULES, timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    times = [NOW - 1000, NOW - 1001, NOW + 500, NOW + 501, -1]
    data = build_batch([Record(b"k", b"v", timestamp_ms=ms) for ms in times], codec=codec)
    refused = refusal(data, rules)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1, 3]


def test_untimely_record_outweighs_a_missing_key() -> None:
    rules = replace(RULES, compacted=True)
    late = NOW + 3_600_001
    records = [Record(None, b"", timestamp_ms=NOW), Record(b"k", b"", timestamp_ms=late)]
    refused = refusal(build_batch(records), rules)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1]


def test_record_with_both_faults_has_the_error_of_its_key() -> None:
    rules = replace(RULES, compacted=True)
    refused = refusal(build_batch([Record(None, b"", timestamp_ms=NOW + 3_600_001)]), rules)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert len(refused.record_errors) == 1


def test_list_of_faulty_records_is_bounded() -> None:
    records = [Record(None, b"", timestamp_ms=NOW)] * (RECORD_ERRORS_MAX + 50)
    refused = refusal(build_batch(records), replace(RULES, compacted=True))
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


def test_timestamp_beyond_64_bits_is_refused() -> None:
    data = patched(sealed(one_record(delta_ms=2**62)), 27, 2**63 - 1, 8)
    assert refusal(data).code == ErrorCode.INVALID_TIMESTAMP
    assert refusal(data, APPEND_TIME).code == ErrorCode.INVALID_TIMESTAMP


def test_wrong_max_timestamp_is_put_right() -> None:
    data = patched(build_batch(RECORDS), 35, NOW + 999_999_999, 8)
    batch = check_produced(memoryview(data), RULES)
    assert batch.max_timestamp == NOW
    assert BatchView(memoryview(data)).max_timestamp == NOW
    assert BatchView(memoryview(data)).checksum_matches()


# LogAppendTime


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_is_written_into_the_batch(codec: Codec) -> None:
    data = build_batch(RECORDS, codec=codec)
    rules = replace(APPEND_TIME, now_ms=NOW + 5, timestamp_before_max_ms=0)
    batch = check_produced(memoryview(data), rules)
    again = BatchView(memoryview(data))
    assert again.timestamp_type is batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert again.max_timestamp == batch.max_timestamp == NOW + 5
    assert again.checksum == batch.checksum
    assert again.checksum_matches()
    assert {one.timestamp_ms for one in records_of(again)} == {NOW + 5}
    assert [one.key for one in records_of(again)] == [one.key for one in RECORDS]


def test_producer_may_not_set_log_append_time_itself() -> None:
    data = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    refused = refusal(data, APPEND_TIME)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert len(refused.record_errors) == len(RECORDS)


def test_log_append_time_of_a_producer_is_taken_back_on_a_create_time_topic() -> None:
    data = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    batch = check_produced(memoryview(data), RULES)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.checksum_matches()


# Codec and offsets


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
@pytest.mark.parametrize("rules", [RULES, APPEND_TIME])
def test_recompressed_batch_is_the_same_but_for_its_codec(
    source: Codec, target: Codec, rules: AppendRules
) -> None:
    data = build_batch(
        RECORDS,
        codec=source,
        producer_id=ProducerId(8),
        producer_epoch=ProducerEpoch(3),
        base_sequence=40,
        transactional=True,
    )
    batch = check_produced(memoryview(data), replace(rules, codec=target))
    assert batch.codec is target
    assert batch.checksum_matches()
    assert (batch.producer_id, batch.producer_epoch) == (8, 3)
    assert (batch.base_sequence, batch.last_sequence) == (40, 49)
    assert batch.is_transactional
    assert batch.timestamp_type is rules.timestamp_type
    assert [(one.key, one.value) for one in records_of(batch)] == [
        (one.key, one.value) for one in RECORDS
    ]
    if rules is RULES:
        assert [one.timestamp_ms for one in records_of(batch)] == [
            one.timestamp_ms for one in RECORDS
        ]


def test_batch_that_recompression_makes_too_large_is_refused() -> None:
    data = build_batch([Record(b"k", bytes(5000), timestamp_ms=NOW)], codec=Codec.GZIP)
    rules = replace(RULES, codec=Codec.NONE, max_message_bytes=1000)
    assert refusal(data, rules).code == ErrorCode.MESSAGE_TOO_LARGE


def test_batch_larger_than_a_segment_is_refused() -> None:
    rules = replace(RULES, segment_bytes=100)
    assert refusal(build_batch(RECORDS), rules).code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("deltas", [(0, 0, 0), (5, 6, 7), (2, 1, 0), (-1, 300, 100_000)])
def test_offsets_that_are_not_dense_are_put_right(codec: Codec, deltas: tuple[int, ...]) -> None:
    payload = b"".join(one_record(b"%d" % i, offset_delta=d) for i, d in enumerate(deltas))
    batch = check_produced(memoryview(sealed(payload, count=3, codec=codec)), RULES)
    assert batch.codec is codec
    assert batch.checksum_matches()
    assert [(one.offset, one.key) for one in records_of(batch)] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]

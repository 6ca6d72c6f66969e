"""What is built is what is read, whatever the records and the codec."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.build import build_batch, record_bytes_max
from penstock.records.compression import Codec
from penstock.records.iterate import records_of
from penstock.records.layout import TimestampType
from penstock.records.record import Record
from penstock.records.twin.walk import INT64_CODES, long_varint
from penstock.records.twin.write import encode_varint
from penstock.records.walk import check_records
from penstock.records.write import renumber_records

field = st.none() | st.binary(max_size=200) | st.binary(min_size=60, max_size=70)
headers = st.lists(st.tuples(st.text(max_size=20), field), max_size=4).map(tuple)
timestamps = st.integers(-1, 2**41) | st.integers(0, 2**62)
record = st.builds(Record, field, field, headers, timestamps)
records = st.lists(record, min_size=1, max_size=80)


@settings(deadline=None)
@given(records=records, codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**50))
def test_records_come_back_as_they_were(
    records: list[Record], codec: Codec, base_offset: int
) -> None:
    data = build_batch(records, codec=codec, base_offset=Offset(base_offset))
    batch = BatchView(memoryview(data))
    assert batch.checksum_matches()
    assert batch.max_timestamp == max(record.timestamp_ms for record in records)
    assert list(records_of(batch)) == [
        record._replace(offset=Offset(base_offset + index)) for index, record in enumerate(records)
    ]


@settings(deadline=None)
@given(records=records)
def test_check_sees_what_iteration_sees(records: list[Record]) -> None:
    batch = BatchView(memoryview(build_batch(records)))
    walked = check_records(
        batch.view[61:], len(records), batch.base_timestamp, 0, 2**41, key_required=True
    )
    timed = [(i, one.timestamp_ms) for i, one in enumerate(records)]
    keyless = [i for i, one in enumerate(records) if one.key is None]
    assert walked.untimely == [(i, ms) for i, ms in timed if ms > 2**41 and i not in keyless]
    assert walked.untimely_count == len(walked.untimely)
    assert walked.timestamp_max == max((ms for _, ms in timed if ms <= 2**41), default=-1)
    assert walked.keyless == keyless
    assert walked.keyless_count == len(keyless)
    assert walked.offsets_dense


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    code, position = (encoded[0], 1) if len(encoded) == 1 else long_varint(encoded, 0, INT64_CODES)
    assert (code >> 1) ^ -(code & 1) == value
    assert position == len(encoded)


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = build_batch(
        [Record(None, b"a", timestamp_ms=1), Record(None, b"b", timestamp_ms=5)],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    assert [one.timestamp_ms for one in records_of(BatchView(memoryview(data)))] == [5, 5]


@given(records=records)
def test_renumbering_gives_dense_offsets_and_keeps_the_rest(records: list[Record]) -> None:
    payload = build_batch(records)[61:]
    assert renumber_records(payload, len(records)) == payload


@given(one=record)
def test_size_reckoned_for_a_record_is_never_too_small(one: Record) -> None:
    first = Record(b"k", b"v", timestamp_ms=0)
    added = len(build_batch([first, one])) - len(build_batch([first]))
    assert added <= record_bytes_max(one.key, one.value, one.headers)

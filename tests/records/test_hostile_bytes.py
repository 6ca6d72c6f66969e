"""Whatever bytes come: an answer, or one of our own errors."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.batch import BatchHeader, BatchView, batches, whole_batches
from penstock.records.build import build_batch
from penstock.records.checksum import crc32c
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatch, InvalidBatch
from penstock.records.iterate import records_of
from penstock.records.layout import HEADER, TimestampType
from penstock.records.record import Record
from penstock.records.validate import AppendRules, check_produced

RULES = AppendRules(
    max_message_bytes=1 << 20,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=2**63 - 1,
    timestamp_after_max_ms=2**63 - 1,
    compacted=True,
    codec=Codec.GZIP,
    codec_level=None,
    now_ms=1_700_000_000_000,
    decompressed_bytes_max=1 << 20,
)
RECORDS = [
    Record(b"key%d" % i, b"value " * i, (("header", b"x"), ("none", None)), 1_700_000_000_000 + i)
    for i in range(5)
]


def exercise(data: bytearray) -> None:
    """Everything that reads bytes of others; only our own errors may leave it."""
    for walk in (batches, whole_batches):
        with contextlib.suppress(CorruptBatch):
            for batch in walk(memoryview(data)):
                repr(batch)
                batch.checksum_matches()
                _ = (batch.last_offset, batch.next_offset, batch.last_sequence)
                _ = (batch.timestamp_type, batch.delete_horizon_ms, batch.is_control)
                with contextlib.suppress(CorruptBatch):
                    list(records_of(batch, bytes_max=1 << 20))
    with contextlib.suppress(CorruptBatch):
        BatchHeader(data)
    with contextlib.suppress(InvalidBatch):
        sound = check_produced(memoryview(data), RULES)
        assert sound.checksum_matches()
        assert [one.offset for one in records_of(sound)] == list(range(sound.record_count))


def sign(data: bytearray) -> bytearray:
    """Length and checksum put right, so that what stands behind them is reached."""
    if len(data) >= HEADER.size:
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


@settings(deadline=None, max_examples=300)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes(data: bytes) -> None:
    exercise(bytearray(data))


@settings(deadline=None, max_examples=300)
@given(
    fields=st.tuples(
        st.integers(-1, 1),
        st.just(0),
        st.integers(-1, 5),
        st.integers(0, 2),
        st.just(0),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-2, 10),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-2, 10),
        st.integers(-2, 10),
        st.integers(-2, 10),
        st.integers(-2, 10),
    ),
    payload=st.binary(max_size=100),
)
def test_arbitrary_header_over_arbitrary_records(fields: tuple[int, ...], payload: bytes) -> None:
    exercise(sign(bytearray(HEADER.pack(*fields) + payload)))


@settings(deadline=None, max_examples=500)
@given(codec=st.sampled_from(Codec), signed=st.booleans(), data=st.data())
def test_mutated_batches(codec: Codec, signed: bool, data: st.DataObject) -> None:
    batch = build_batch(RECORDS, codec=codec)
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(0, len(batch) - 1))
        match data.draw(st.sampled_from(("set", "cut", "insert"))):
            case "set":
                batch[position] = data.draw(st.integers(0, 255))
            case "cut" if len(batch) > 1:
                del batch[position : position + data.draw(st.integers(1, 4))]
            case _:
                batch[position:position] = data.draw(st.binary(max_size=4))
        if not batch:
            return
    exercise(sign(batch) if signed else batch)


def test_every_single_byte_of_the_records_replaced() -> None:
    batch = build_batch(RECORDS)
    for position in range(HEADER.size, len(batch)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            mutated = bytearray(batch)
            mutated[position] = value
            exercise(sign(mutated))


@pytest.mark.parametrize("magic", [0, 1])
@settings(deadline=None, max_examples=200)
@given(attributes=st.integers(0, 255), payload=st.binary(max_size=80))
def test_arbitrary_old_messages(magic: int, attributes: int, payload: bytes) -> None:
    body = bytes((magic, attributes)) + payload
    size = (len(body) + 4).to_bytes(4, "big")
    exercise(bytearray(bytes(8) + size + bytes(4) + body))


def test_record_count_of_two_billion_costs_nothing() -> None:
    data = build_batch(RECORDS)
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        list(records_of(BatchView(memoryview(sign(data)))))

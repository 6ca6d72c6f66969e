"""Other implementations read what is built here, and what they build is read here."""

import struct
import zlib
from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import aiokafka.record.legacy_records as aiokafka_legacy
import kafka.record.default_records as kafka_python_records
import kafka.record.legacy_records as kafka_python_legacy
import pytest

from penstock.model.offset import Offset
from penstock.records.batch import BatchView, batches
from penstock.records.build import build_batch
from penstock.records.compression import Codec, compress
from penstock.records.iterate import records_of
from penstock.records.record import Record

RECORDS = [
    Record(b"key", b"value" * 50, (("h1", b"one"), ("h2", None), ("", b"")), 1_700_000_000_000),
    Record(None, b"no key", (), 1_700_000_000_007),
    Record(b"no value", None, (), 1_699_999_999_000),
    Record(b"", b"", (), 1_700_000_100_000),
    *(
        Record(b"k%d" % i, b"text that repeats " * 20, (), 1_700_000_000_000 + i)
        for i in range(200)
    ),
]
NUMBERED = [record._replace(offset=Offset(i)) for i, record in enumerate(RECORDS)]

BUILDERS = {
    "kafka-python": kafka_python_records.DefaultRecordBatchBuilder,
    "aiokafka": aiokafka_records.DefaultRecordBatchBuilder,
}
READERS = {
    "kafka-python": kafka_python_records.DefaultRecordBatch,
    "aiokafka": aiokafka_records.DefaultRecordBatch,
}
LEGACY_BUILDERS: dict[str, Callable[..., Any]] = {
    "kafka-python": kafka_python_legacy.LegacyRecordBatchBuilder,
    "aiokafka": aiokafka_legacy._LegacyRecordBatchBuilderPy,
}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", BUILDERS)
def test_batch_of_another_client_is_read(client: str, codec: Codec) -> None:
    builder = BUILDERS[client](
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=10,
        batch_size=1 << 20,
    )
    for index, record in enumerate(RECORDS):
        builder.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = BatchView(memoryview(bytearray(builder.build())))
    assert batch.checksum_matches()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 10)
    assert batch.is_transactional
    assert batch.codec is codec
    assert batch.max_timestamp == 1_700_000_100_000
    assert list(records_of(batch)) == NUMBERED


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", READERS)
def test_another_client_reads_our_batch(client: str, codec: Codec) -> None:
    theirs = READERS[client](bytes(build_batch(RECORDS, codec=codec, base_offset=Offset(500))))
    assert theirs.validate_crc()
    read = [
        Record(
            None if one.key is None else bytes(one.key),
            None if one.value is None else bytes(one.value),
            tuple(one.headers),
            one.timestamp,
            Offset(one.offset - 500),
        )
        for one in theirs
    ]
    assert read == NUMBERED


# Neither client writes lz4 of format v0 without a further library; it has a test of its own below.
@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        *((0, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY)),
        *((1, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)),
    ],
)
@pytest.mark.parametrize("client", LEGACY_BUILDERS)
def test_message_set_of_another_client_is_read(client: str, magic: int, codec: Codec) -> None:
    builder = LEGACY_BUILDERS[client](magic, int(codec), 1 << 20)
    for index, record in enumerate(RECORDS):
        builder.append(index, record.timestamp_ms, record.key, record.value)
    messages = list(batches(memoryview(bytearray(builder.build()))))
    assert all(message.checksum_matches() for message in messages)
    assert messages[-1].last_offset in (len(RECORDS) - 1, 0)
    read = [record for message in messages for record in records_of(message)]
    assert [(one.key, one.value) for one in read] == [(one.key, one.value) for one in RECORDS]
    if magic == 1:
        assert [one.timestamp_ms for one in read] == [one.timestamp_ms for one in RECORDS]
    else:
        assert {one.timestamp_ms for one in read} == {-1}


def test_inner_offsets_of_a_wrapper_are_relative_to_its_last() -> None:
    builder = kafka_python_legacy.LegacyRecordBatchBuilder(1, int(Codec.GZIP), 1 << 20)
    for index in range(3):
        builder.append(index, 1000 + index, b"k", b"v%d" % index)
    data = bytearray(builder.build())
    data[0:8] = (902).to_bytes(8, "big")
    assert [one.offset for one in records_of(BatchView(memoryview(data)))] == [900, 901, 902]


def test_wrapper_with_log_append_time_gives_its_time_to_all() -> None:
    builder = kafka_python_legacy.LegacyRecordBatchBuilder(1, int(Codec.GZIP), 1 << 20)
    for index in range(3):
        builder.append(index, 1000 + index, b"k", b"v")
    data = bytearray(builder.build())
    data[17] |= 0x08
    data[18:26] = (5555).to_bytes(8, "big")
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    assert [one.timestamp_ms for one in records_of(BatchView(memoryview(data)))] == [5555] * 3


def test_lz4_of_format_v0_is_read_in_spite_of_its_wrong_header_checksum() -> None:
    builder = kafka_python_legacy.LegacyRecordBatchBuilder(0, int(Codec.NONE), 1 << 20)
    for index in range(3):
        builder.append(index, None, b"k", b"v%d" % index)
    frame = bytearray(compress(Codec.LZ4, bytes(builder.build())))
    frame[6] ^= 0xFF
    body = b"\x00\x03" + struct.pack(">ii", -1, len(frame)) + frame
    message = struct.pack(">qiI", 2, len(body) + 4, zlib.crc32(body)) + body
    batch = BatchView(memoryview(message))
    assert batch.checksum_matches()
    assert [(one.offset, one.value) for one in records_of(batch)] == [
        (0, b"v0"),
        (1, b"v1"),
        (2, b"v2"),
    ]

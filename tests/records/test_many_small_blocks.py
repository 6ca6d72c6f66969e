"""Blocks of a compressed batch cost time each: many small ones are refused when produced."""

import struct

import lz4.frame
import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.limit import BATCH_BLOCKS_MAX, BLOCK_BYTES_MIN, MIB
from penstock.records.batch import BatchView
from penstock.records.block_codecs import XERIAL_HEADER
from penstock.records.build import seal_batch
from penstock.records.compression import Codec, compress, decompress
from penstock.records.errors import CorruptBatch, InvalidBatch
from penstock.records.iterate import records_of
from penstock.records.layout import FIRST_OFFSET, TimestampType
from penstock.records.lz4_frame import STORED, WRITTEN_HEADER
from penstock.records.record import Record
from penstock.records.twin.write import encode_record
from penstock.records.validate import AppendRules, check_produced

NOW = 1_700_000_000_000
RULES = AppendRules(
    max_message_bytes=MIB,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=2**63 - 1,
    timestamp_after_max_ms=3_600_000,
    compacted=False,
    codec=None,
    codec_level=None,
    now_ms=NOW,
)
RECORD = Record(b"key", b"v" * 6_000, timestamp_ms=NOW)


def lz4_of_small_blocks(data: bytes, size: int) -> bytes:
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    blocks = b"".join(struct.pack("<I", len(part) | STORED) + part for part in parts)
    return WRITTEN_HEADER + blocks + bytes(4)


def snappy_of_small_blocks(data: bytes, size: int) -> bytes:
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    raw = [bytes((len(part), (len(part) - 1) << 2)) + part for part in parts]  # one literal each
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in raw)


SMALL = {Codec.LZ4: lz4_of_small_blocks, Codec.SNAPPY: snappy_of_small_blocks}


def batch_of(compressed: bytes, codec: Codec) -> bytearray:
    return seal_batch(
        compressed,
        base_offset=FIRST_OFFSET,
        leader_epoch=-1,  # type: ignore[arg-type]  # as on the wire
        attributes=codec,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=ProducerId(-1),
        producer_epoch=ProducerEpoch(-1),
        base_sequence=-1,
        record_count=1,
    )


def encoded() -> bytes:
    return encode_record(RECORD.key, RECORD.value, (), timestamp_delta=0, offset_delta=0)


@pytest.mark.parametrize("codec", SMALL)
def test_produced_batch_of_many_small_blocks_is_refused(codec: Codec) -> None:
    data = batch_of(SMALL[codec](encoded(), 1), codec)
    with pytest.raises(InvalidBatch, match=r"in over \d+ blocks") as refused:
        check_produced(memoryview(data), RULES)
    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", SMALL)
def test_small_blocks_are_fine_while_they_are_few(codec: Codec) -> None:
    data = batch_of(SMALL[codec](encoded(), 8), codec)
    check_produced(memoryview(data), RULES)


@pytest.mark.parametrize("codec", SMALL)
def test_batch_that_is_stored_is_read_however_it_was_compressed(codec: Codec) -> None:
    batch = BatchView(memoryview(batch_of(SMALL[codec](encoded(), 1), codec)))
    [record] = records_of(batch)
    assert record.value == RECORD.value


@pytest.mark.parametrize("codec", SMALL)
def test_bound_is_met_exactly(codec: Codec) -> None:
    blocks = BATCH_BLOCKS_MAX
    while blocks <= BATCH_BLOCKS_MAX + len(SMALL[codec](bytes(blocks), 1)) // BLOCK_BYTES_MIN:
        blocks += 1
    most = SMALL[codec](bytes(blocks - 1), 1)
    assert len(decompress(codec, most, bytes_max=MIB, blocks_bounded=True)) == blocks - 1
    with pytest.raises(CorruptBatch):
        decompress(codec, SMALL[codec](bytes(blocks), 1), bytes_max=MIB, blocks_bounded=True)


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_full_blocks_never_reach_the_bound_however_well_they_compress(block_size: int) -> None:
    plain = bytes(64 * MIB)  # no batch may hold more
    frame = lz4.frame.compress(plain, block_linked=False, block_size=block_size, store_size=False)
    assert len(decompress(Codec.LZ4, frame, bytes_max=64 * MIB, blocks_bounded=True)) == 64 * MIB


def test_full_blocks_of_snappy_do_not_reach_it_either() -> None:
    compressed = compress(Codec.SNAPPY, bytes(64 * MIB))
    found = decompress(Codec.SNAPPY, compressed, bytes_max=64 * MIB, blocks_bounded=True)
    assert len(found) == 64 * MIB

"""lz4 as Kafka's clients write it is expanded block by block, and hostile frames are refused."""

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.compression import Codec, compress, decompress
from penstock.records.errors import CorruptBatch, OversizedBatch
from penstock.records.lz4_frame import WRITTEN_HEADER
from penstock.records.scratch import Scratch

MIB = 1024 * 1024
TEXTS = st.binary(max_size=300).flatmap(
    lambda seed: st.integers(0, 800).map(lambda times: seed * times)
)


def java_frame(data: bytes, block_size: int = lz4.frame.BLOCKSIZE_MAX64KB) -> bytes:
    return bytes(
        lz4.frame.compress(data, block_linked=False, store_size=False, block_size=block_size)
    )


@given(TEXTS)
def test_our_frames_are_read_by_another_library(data: bytes) -> None:
    assert lz4.frame.decompress(bytes(compress(Codec.LZ4, data))) == data


@given(TEXTS, st.sampled_from([4, 5, 6, 7]))
def test_frames_of_another_library_are_read(data: bytes, block_size: int) -> None:
    frame = java_frame(data, block_size)
    assert bytes(decompress(Codec.LZ4, frame, bytes_max=MIB)) == data


FRAMINGS = st.fixed_dictionaries(
    {
        "block_size": st.sampled_from([4, 5, 6, 7]),
        "store_size": st.booleans(),
        "content_checksum": st.booleans(),
        "block_checksum": st.booleans(),
    }
)


def framed(data: bytes, framing: dict[str, int]) -> bytes:
    return bytes(lz4.frame.compress(data, block_linked=False, **framing))


@given(TEXTS, FRAMINGS)
def test_frames_with_checksums_and_sizes_are_read(data: bytes, framing: dict[str, int]) -> None:
    assert bytes(decompress(Codec.LZ4, framed(data, framing), bytes_max=MIB)) == data


@given(TEXTS.filter(bool), FRAMINGS, st.data())
def test_a_frame_that_another_library_refuses_is_refused(
    data: bytes, framing: dict[str, int], draw: st.DataObject
) -> None:
    """Else the batch would be stored, and stop consumers that check more than we do."""
    frame = bytearray(framed(data, framing))
    frame[draw.draw(st.integers(0, len(frame) - 1))] ^= draw.draw(st.integers(1, 255))
    try:
        expanded = decompress(Codec.LZ4, frame, bytes_max=MIB)
    except (CorruptBatch, OversizedBatch):
        return
    assert lz4.frame.decompress(bytes(frame)) == bytes(expanded)


@pytest.mark.parametrize(
    ("framing", "position"),
    [
        ({"content_checksum": True}, -1),
        ({"block_checksum": True}, -5),
        ({"store_size": True}, 6),
        ({"store_size": True}, 14),
    ],
    ids=["content checksum", "block checksum", "content size", "header checksum"],
)
def test_each_checksum_and_size_is_verified(framing: dict[str, int], position: int) -> None:
    frame = bytearray(framed(b"data" * 1000, {"store_size": False, **framing}))
    assert len(decompress(Codec.LZ4, bytes(frame), bytes_max=MIB)) == 4000
    frame[position] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, frame, bytes_max=MIB)


@given(st.lists(TEXTS, max_size=4), st.sampled_from([4, 7]))
def test_memory_that_is_used_again_holds_nothing_of_what_was_before(
    texts: list[bytes], block_size: int
) -> None:
    scratch = Scratch()
    for data in texts:
        frame = java_frame(data, block_size)
        found = decompress(Codec.LZ4, frame, bytes_max=MIB, scratch=scratch)
        assert bytes(found) == data


@given(TEXTS, st.data())
def test_a_changed_byte_is_never_more_than_a_corrupt_batch(
    data: bytes, draw: st.DataObject
) -> None:
    frame = bytearray(java_frame(data))
    frame[draw.draw(st.integers(0, len(frame) - 1))] ^= draw.draw(st.integers(1, 255))
    try:
        expanded = decompress(Codec.LZ4, frame, bytes_max=MIB)
    except (CorruptBatch, OversizedBatch):
        return
    assert len(expanded) <= MIB


def test_more_than_allowed_is_oversized_and_no_more_is_held() -> None:
    frame = java_frame(bytes(3 * MIB))
    with pytest.raises(OversizedBatch):
        decompress(Codec.LZ4, frame, bytes_max=MIB)
    assert len(decompress(Codec.LZ4, frame, bytes_max=3 * MIB)) == 3 * MIB


def test_a_block_larger_than_its_header_allows_is_corrupt() -> None:
    large = java_frame(bytes(200_000), lz4.frame.BLOCKSIZE_MAX256KB)
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, WRITTEN_HEADER + large[len(WRITTEN_HEADER) :], bytes_max=MIB)
    stored = (70_000 | 1 << 31).to_bytes(4, "little") + bytes(70_000) + bytes(4)
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, WRITTEN_HEADER + stored, bytes_max=MIB)


def test_a_wrong_header_checksum_is_corrupt() -> None:
    frame = bytearray(java_frame(b"data"))
    frame[6] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, frame, bytes_max=MIB)


@pytest.mark.parametrize(
    "block",
    [
        (1 << 31).to_bytes(4, "little"),  # stored, of no bytes: Java takes it for the end
        (1).to_bytes(4, "little") + b"\0",  # expands to nothing
        (65_537).to_bytes(4, "little") + bytes(65_537),  # larger than a block may be
    ],
    ids=["empty stored", "empty", "too large"],
)
def test_blocks_that_stop_a_java_consumer_are_corrupt(block: bytes) -> None:
    sound = java_frame(b"data")
    frame = WRITTEN_HEADER + block + sound[len(WRITTEN_HEADER) :]
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, frame, bytes_max=MIB)

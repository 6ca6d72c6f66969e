"""Every codec round trips, in each framing that clients use, and never beyond its bound."""

import contextlib
import os
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.block_codecs import FIRST_GUESS_BYTES
from penstock.records.compression import Codec, compress, decompress
from penstock.records.errors import CorruptBatch, OversizedBatch
from penstock.records.lz4_frame import repair_lz4_header

MIB = 1024 * 1024
PACKED = [codec for codec in Codec if codec is not Codec.NONE]


@settings(deadline=None)
@given(codec=st.sampled_from(Codec), data=st.binary(max_size=3000), repeat=st.integers(0, 60))
def test_data_comes_back(codec: Codec, data: bytes, repeat: int) -> None:
    whole = data * repeat
    assert bytes(decompress(codec, compress(codec, whole), bytes_max=len(whole))) == whole


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, FIRST_GUESS_BYTES - 1, FIRST_GUESS_BYTES, 3 * MIB + 7])
def test_exactly_the_bound_is_allowed_and_one_byte_more_is_not(codec: Codec, size: int) -> None:
    packed = compress(codec, b"z" * size)
    assert len(decompress(codec, packed, bytes_max=size)) == size
    if size > 0:
        with pytest.raises(OversizedBatch):
            decompress(codec, packed, bytes_max=size - 1)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("level", [None, -100, -1, 1, 6, 9, 17, 100])
def test_every_level_is_read_again(codec: Codec, level: int | None) -> None:
    data = os.urandom(300) * 50
    assert bytes(decompress(codec, compress(codec, data, level), bytes_max=len(data))) == data


@pytest.mark.parametrize("codec", PACKED)
def test_cut_off_data_is_corrupt(codec: Codec) -> None:
    packed = bytes(compress(codec, os.urandom(2000)))
    for cut in range(1, len(packed), 97):
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:cut] if cut > 20 else packed[:-cut], bytes_max=MIB)


@settings(deadline=None, max_examples=300)
@given(codec=st.sampled_from(PACKED), data=st.binary(max_size=300))
def test_arbitrary_bytes_are_corrupt_or_expand(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, bytes_max=MIB)) <= MIB


@settings(deadline=None, max_examples=300)
@given(codec=st.sampled_from(PACKED), data=st.data())
def test_mutated_streams_are_corrupt_or_expand(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"some text, some more text, and some text " * 20))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, packed, bytes_max=MIB)) <= MIB


def test_raw_snappy_is_read() -> None:
    data = b"raw snappy as librdkafka sends it " * 99
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Codec.SNAPPY, raw, bytes_max=len(data)) == data


def test_blocks_of_java_snappy_are_read_and_bounded_together() -> None:
    data = os.urandom(100) * 1000
    framed = compress(Codec.SNAPPY, data)
    assert bytes(framed[:16]) == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(Codec.SNAPPY, framed, bytes_max=len(data)) == data
    with pytest.raises(OversizedBatch):
        decompress(Codec.SNAPPY, framed, bytes_max=len(data) - 1)


def test_lz4_blocks_are_independent_as_the_java_client_demands() -> None:
    frame = compress(Codec.LZ4, os.urandom(500) * 500)
    assert bytes(frame[:4]) == bytes.fromhex("04224d18")
    assert frame[4] & 0x20


@pytest.mark.parametrize(
    "frame",
    [
        bytes(compress(Codec.LZ4, b"one" * 50)) + bytes(compress(Codec.LZ4, b"two" * 50)),
        bytes(compress(Codec.LZ4, b"one" * 50)) + b"\x00",
        bytes(cramjam.lz4.compress(b"linked" * 50_000)),
    ],
    ids=["two frames", "bytes after the frame", "linked blocks"],
)
def test_lz4_that_would_stop_a_java_consumer_is_corrupt(frame: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, frame, bytes_max=MIB)


@pytest.mark.parametrize("flags", [{}, {"content_checksum": True}])
def test_wrong_lz4_header_checksum_is_put_right(flags: dict[str, bool]) -> None:
    compressor = cramjam.lz4.Compressor(**flags)
    compressor.compress(b"message set " * 30)
    frame = bytearray(bytes(compressor.finish()))
    sound = bytes(frame)
    frame[6] ^= 0x5A
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, frame, bytes_max=MIB)
    assert repair_lz4_header(frame) == sound


def test_too_short_lz4_header_is_corrupt() -> None:
    for frame in (b"", bytes.fromhex("04224d1860"), bytes.fromhex("04224d1868400000")):
        with pytest.raises(CorruptBatch):
            repair_lz4_header(frame)


def test_bytes_after_a_gzip_stream_are_corrupt() -> None:
    packed = zlib.compress(b"x", wbits=31)
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, packed + packed, bytes_max=MIB)


BOMB = """
import resource, sys, zlib
import cramjam
from penstock.records.compression import Codec, decompress
from penstock.records.errors import OversizedBatch
codec = Codec(int(sys.argv[1]))
bomb = open(sys.argv[2], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, bytes_max=16 << 20)
except OversizedBatch:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def bomb_of(codec: Codec, size: int) -> bytes:
    """Zeros, compressed by a stream so that no header tells the size."""
    match codec:
        case Codec.GZIP:
            return zlib.compress(bytes(size), 9, wbits=31)
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(block_linked=False)
        case Codec.ZSTD:
            compressor = cramjam.zstd.Compressor()
        case _:
            return bytes(compress(codec, bytes(size)))
    for _ in range(size // MIB):
        compressor.compress(bytes(MIB))
    return bytes(compressor.finish())


@pytest.mark.parametrize("codec", PACKED)
def test_bomb_is_refused_without_being_held(codec: Codec, tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "bomb")
    with open(path, "wb") as file:
        file.write(bomb_of(codec, 512 * MIB))
    run = subprocess.run(
        [sys.executable, "-c", BOMB, str(int(codec)), path], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    grown_kib = int(run.stdout)
    # The bound itself, once more while a buffer is replaced by a larger, and some slack.
    assert grown_kib < 48 * 1024, f"{codec.name}: {grown_kib} KiB for a bound of 16 MiB"


def test_snappy_block_that_claims_four_gigabytes_costs_nothing() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"\x00" * 100
    with pytest.raises(OversizedBatch):
        decompress(Codec.SNAPPY, claim, bytes_max=MIB)

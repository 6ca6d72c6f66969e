"""Snappy, lz4 and zstd: the one module that knows the library behind them.

How the output is bounded. Snappy states its length ahead. lz4 says how many blocks there are, and
none is larger than its header allows. zstd writes into a buffer of a fixed size and fails when it
is full, so it is tried with growing buffers up to the bound; what the frame says of its size is the
first guess, and no more than that.

Framings. Java's snappy comes in blocks, each with its length, after a header of 16 bytes;
librdkafka and others send one raw block. Both are read, the first is written since every client
reads it. `lz4_frame` reads the frames of lz4. Messages of format v0 carry an lz4 frame whose header
checksum covers the wrong bytes; `repair_lz4_header` puts that right.
"""

from collections.abc import Callable
from typing import Final

import cramjam

from penstock.records.errors import CorruptBatch, OversizedBatch
from penstock.records.layout import INT32, Buffer
from penstock.records.lz4_frame import (
    LITTLE_UINT32,
    STORED,
    WRITTEN_BLOCK_BYTES,
    WRITTEN_HEADER,
    Lz4Frame,
)
from penstock.records.scratch import Scratch
from penstock.records.xxhash import XXHASH_COMPILED

LZ4_THOROUGH_MIN: Final = 3  # below it the library compresses fast
KAFKA_LZ4_LEVEL: Final = 9  # Kafka's default, by which it means fast and not the ninth level
LZ4_EXPANSION_MAX: Final = 255
XERIAL_MAGIC: Final[bytes] = b"\x82SNAPPY\x00"
# And the version, and the lowest version of a reader.
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES: Final = 32 * 1024
ZSTD_HEADER_BYTES_MIN: Final = 6  # magic, flags, and the window that a single segment has not
FIRST_GUESS_BYTES: Final = 64 * 1024
EXPANSION_GUESS: Final = 6  # text and JSON expand about so much
BUFFER_GROWTH: Final = 4

# How cramjam reports an output buffer that is too small; anything else it raises is bad input.
BUFFER_FULL: Final = "failed to write whole buffer"
BAD_INPUT: Final = (cramjam.DecompressionError, OSError, ValueError, OverflowError)


def _lz4_level(level: int | None) -> int | None:
    """None for the fast way, which has no levels."""
    if level is None or level == KAFKA_LZ4_LEVEL:
        return None
    return max(LZ4_THOROUGH_MIN, level)


def _decompress_growing(
    decompress_into: Callable[[Buffer, memoryview], int],
    data: Buffer,
    bytes_max: int,
    scratch: Scratch,
    *,
    size_guess: int | None = None,
) -> memoryview:
    if size_guess is None:
        size_guess = max(FIRST_GUESS_BYTES, EXPANSION_GUESS * len(data))
    size = min(bytes_max, size_guess)
    while True:
        output = scratch.room(size)
        try:
            count = decompress_into(data, output)
        except BAD_INPUT as error:
            if BUFFER_FULL not in str(error):
                raise CorruptBatch(f"cannot be decompressed: {error}") from error
            if size == bytes_max:
                raise OversizedBatch(bytes_max) from error
            size = min(bytes_max, max(size * BUFFER_GROWTH, FIRST_GUESS_BYTES))
            del output  # before the next is made, or both would be held
        else:
            return output[:count]


def compress_lz4(data: memoryview, level: int | None) -> bytes:
    """A frame as the Java client writes it: independent blocks of 64 KiB, no checksums of them."""
    level = _lz4_level(level)
    parts = [WRITTEN_HEADER]
    for start in range(0, len(data), WRITTEN_BLOCK_BYTES):
        plain = data[start : start + WRITTEN_BLOCK_BYTES]
        if level is None:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(
                    plain, store_size=False, mode="high_compression", compression=level
                )
            )
        if len(block) < len(plain):
            parts += (LITTLE_UINT32.pack(len(block)), block)
        else:
            parts += (LITTLE_UINT32.pack(len(plain) | STORED), bytes(plain))
    parts.append(LITTLE_UINT32.pack(0))
    return b"".join(parts)


def decompress_lz4(data: memoryview, bytes_max: int, blocks_max: int, scratch: Scratch) -> Buffer:
    """Block by block into memory of the right size.

    The library's own reader of frames passes every byte through two buffers. It is used for frames
    with a checksum of their content where ours would be computed in Python.
    """
    frame = Lz4Frame(data, blocks_max)
    blocks, block_bytes_max = frame.blocks, frame.block_bytes_max
    # A byte expands to 255 at most, so a frame of many empty blocks sets little aside.
    room = min(bytes_max, len(blocks) * block_bytes_max, LZ4_EXPANSION_MAX * len(data))
    if frame.content_size is not None:
        if frame.content_size > bytes_max:
            raise OversizedBatch(bytes_max)
        room = min(room, frame.content_size)
    if frame.content_checksum is not None and not XXHASH_COMPILED:
        return _decompress_growing(cramjam.lz4.decompress_into, data, bytes_max, scratch)
    output = scratch.room(room)
    filled = 0
    for block, is_stored in blocks:
        target = output[filled : filled + block_bytes_max]
        try:
            if is_stored:
                target[: len(block)] = block
                filled += len(block)
            else:
                expanded = cramjam.lz4.decompress_block_into(block, target, output_len=0)
                if expanded == 0:
                    raise CorruptBatch("an lz4 block of 0 bytes")
                filled += expanded
        except BAD_INPUT as error:
            # The library does not say which it is; too little room there is only at the bound.
            if room == bytes_max and len(target) < block_bytes_max:
                raise OversizedBatch(bytes_max) from error
            raise CorruptBatch(f"an lz4 block cannot be decompressed: {error}") from error
    found = output[:filled]
    frame.check_content(found)
    return found


def compress_snappy(data: memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts += (INT32.pack(len(block)), block)
    return b"".join(parts)


def decompress_snappy(
    data: memoryview, bytes_max: int, blocks_max: int, scratch: Scratch
) -> memoryview:
    blocks = [data]
    if data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
        blocks = _xerial_blocks(data, blocks_max)
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        size = sum(sizes)
        if size > bytes_max:
            raise OversizedBatch(bytes_max)
        output = scratch.room(size)
        filled = 0
        for block, block_size in zip(blocks, sizes, strict=True):
            filled_to = filled + block_size
            cramjam.snappy.decompress_raw_into(block, output[filled:filled_to])
            filled = filled_to
    except BAD_INPUT as error:
        raise CorruptBatch(f"not snappy: {error}") from error
    return output


def _xerial_blocks(data: memoryview, blocks_max: int) -> list[memoryview]:
    blocks: list[memoryview] = []
    position = len(XERIAL_HEADER)
    if data[: len(XERIAL_HEADER)] != XERIAL_HEADER:
        raise CorruptBatch("a snappy header of another version")
    while position < len(data):
        if len(blocks) == blocks_max:
            raise CorruptBatch(f"{len(data)} bytes of snappy in over {blocks_max} blocks")
        start = position + INT32.size
        if start > len(data):
            raise CorruptBatch("a snappy block without its length")
        (block_bytes,) = INT32.unpack_from(data, position)
        position = start + block_bytes
        if block_bytes < 0 or position > len(data):
            raise CorruptBatch(f"a snappy block of {block_bytes} bytes")
        blocks.append(data[start:position])
    return blocks


def compress_zstd(data: Buffer, level: int) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=level))


def decompress_zstd(data: Buffer, bytes_max: int, scratch: Scratch) -> memoryview:
    return _decompress_growing(
        cramjam.zstd.decompress_into,
        data,
        bytes_max,
        scratch,
        size_guess=_zstd_content_size(data),
    )


def _zstd_content_size(data: Buffer) -> int | None:
    """What the header of a zstd frame says of its content, if it says anything."""
    if len(data) < ZSTD_HEADER_BYTES_MIN:
        return None
    flags = data[4]
    is_single_segment = flags >> 5 & 1
    size_bytes = (is_single_segment, 2, 4, 8)[flags >> 6]
    start = ZSTD_HEADER_BYTES_MIN - is_single_segment + (0, 1, 2, 4)[flags & 3]
    if size_bytes == 0 or start + size_bytes > len(data):
        return None
    size = int.from_bytes(data[start : start + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size

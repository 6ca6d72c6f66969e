"""Compression of records: the one module that knows the libraries behind it.

`decompress` never makes more than `bytes_max` bytes of output, whatever the input promises, and
holds at most twice that at a time. gzip stops by itself at a given length. Snappy states its length
ahead. lz4 says how many blocks there are, and none is larger than its header allows. zstd writes
into a buffer of a fixed size and fails when it is full, so it is tried with growing buffers up to
the bound: at most a third of the work is done twice, and reading a length from the input would
mean trusting it.

Framings. Java's snappy comes in blocks, each with its length, after a header of 16 bytes;
librdkafka and others send one raw block. Both are read, the first is written since every client
reads it. lz4 is one frame of independent blocks, the only one the Java client takes. Messages of
format v0 carry an lz4 frame whose header checksum covers the wrong bytes; `repair_lz4_header` puts
that right.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from penstock.records.layout import INT32, Buffer
from penstock.records.trouble import CorruptBatch, OversizedBatch


class Codec(IntEnum):
    """How the records of a batch are compressed, by the number in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """The data compressed as clients expect it; None is Kafka's default level of the codec."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, _clamp(level, -1, 9, default=-1), wbits=GZIP_WBITS)
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Codec.LZ4:
            return _compress_lz4(memoryview(data), _lz4_level(level))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_clamp(level, -7, 22, default=3)))


class Scratch:
    """Memory for what is decompressed, looked at and dropped, kept from one batch to the next.

    What was decompressed into it holds until the next time. The library lets other threads run
    meanwhile, so no two of them may share one: a node has its own.
    """

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = memoryview(bytearray())

    def room(self, size: int) -> memoryview:
        """So many bytes, whatever they hold."""
        if size > SCRATCH_BYTES_MAX:
            return memoryview(bytearray(size))
        if size > len(self._memory):
            self._memory = memoryview(bytearray(size))
        return self._memory[:size]


def decompress(
    codec: Codec, data: Buffer, *, bytes_max: int, scratch: Scratch | None = None
) -> Buffer:
    """The data expanded; OversizedBatch beyond `bytes_max`, CorruptBatch when it makes no sense."""
    assert bytes_max >= 0, bytes_max
    match codec:
        case Codec.NONE:
            if len(data) > bytes_max:
                raise OversizedBatch(bytes_max)
            return data
        case Codec.GZIP:
            return _decompress_gzip(data, bytes_max)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), bytes_max)
        case Codec.LZ4:
            return _decompress_lz4(memoryview(data), bytes_max, scratch or Scratch())
        case Codec.ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, data, bytes_max)


def repair_lz4_header(frame: Buffer) -> bytes:
    """An lz4 frame with the header checksum that its descriptor should have."""
    repaired = bytearray(frame)
    if len(repaired) < LZ4_HEADER_BYTES_MIN:
        raise CorruptBatch("an lz4 frame without a header")
    has_content_size = repaired[4] & 0x08 != 0
    checksum_position = 14 if has_content_size else 6
    if checksum_position >= len(repaired):
        raise CorruptBatch("an lz4 frame without a header")
    digest = _xxh32_short(bytes(repaired[4:checksum_position]))
    repaired[checksum_position] = digest >> 8 & 0xFF
    return bytes(repaired)


GZIP_WBITS = 31  # a window of 32 KiB and the gzip header
LZ4_THOROUGH_MIN = 3  # below it the library compresses fast
KAFKA_LZ4_LEVEL = 9  # Kafka's default, by which it means fast and not the ninth level
LZ4_HEADER_BYTES_MIN = 7  # magic, flags, block descriptor, header checksum
LZ4_MAGIC = 0x184D2204
LZ4_BLOCKS_INDEPENDENT = 0x20
LZ4_BLOCK_CHECKSUM = 0x10
LZ4_CONTENT_SIZE = 0x08
LZ4_CONTENT_CHECKSUM = 0x04
LZ4_DICTIONARY = 0x01
LZ4_PLAIN = 0x40 | LZ4_BLOCKS_INDEPENDENT  # the version of the format, and no more
LZ4_EXPANSION_MAX = 255
LZ4_STORED = 1 << 31  # set in the size of a block that is not compressed
LITTLE_UINT32 = Struct("<I")
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, lowest reader version
XERIAL_BLOCK_BYTES = 32 * 1024
SCRATCH_BYTES_MAX = 2 * 1024 * 1024
FIRST_GUESS_BYTES = 64 * 1024
EXPANSION_GUESS = 6  # text and JSON expand about so much
BUFFER_GROWTH = 4

# How cramjam reports an output buffer that is too small; anything else it raises is bad input.
BUFFER_FULL = "failed to write whole buffer"
BAD_INPUT = (cramjam.DecompressionError, OSError, ValueError, OverflowError)


def _clamp(level: int | None, low: int, high: int, *, default: int) -> int:
    return default if level is None else max(low, min(level, high))


def _lz4_level(level: int | None) -> int | None:
    """None for the fast way, which has no levels."""
    if level is None or level == KAFKA_LZ4_LEVEL:
        return None
    return max(LZ4_THOROUGH_MIN, level)


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    expander = zlib.decompressobj(wbits=GZIP_WBITS)
    try:
        # A limit of 0 means none to zlib; one byte more than allowed tells that there is more.
        expanded = expander.decompress(data, bytes_max + 1)
    except zlib.error as trouble:
        raise CorruptBatch(f"not gzip: {trouble}") from trouble
    if len(expanded) > bytes_max:
        raise OversizedBatch(bytes_max)
    if not expander.eof:
        raise CorruptBatch("the gzip stream is cut off")
    if expander.unused_data:
        raise CorruptBatch("bytes after the end of the gzip stream")
    return expanded


def _decompress_growing(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, bytes_max: int
) -> memoryview:
    size = min(bytes_max, max(FIRST_GUESS_BYTES, EXPANSION_GUESS * len(data)))
    while True:
        output = bytearray(size)
        try:
            count = decompress_into(data, output)
        except BAD_INPUT as trouble:
            if BUFFER_FULL not in str(trouble):
                raise CorruptBatch(f"cannot be decompressed: {trouble}") from trouble
            if size == bytes_max:
                raise OversizedBatch(bytes_max) from trouble
            size = min(bytes_max, size * BUFFER_GROWTH)
            del output  # before the next is made, or both would be held
        else:
            # Not cut: freed at its full size, the next one gets the same memory, already mapped.
            return memoryview(output)[:count]


def _compress_lz4(data: memoryview, level: int | None) -> bytes:
    """A frame as the Java client writes it: independent blocks of 64 KiB, no checksums of them."""
    parts = [LZ4_HEADER]
    for start in range(0, len(data), LZ4_BLOCK_BYTES):
        plain = data[start : start + LZ4_BLOCK_BYTES]
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
            parts += (LITTLE_UINT32.pack(len(plain) | LZ4_STORED), bytes(plain))
    parts.append(LITTLE_UINT32.pack(0))
    return b"".join(parts)


def _decompress_lz4(data: memoryview, bytes_max: int, scratch: Scratch) -> Buffer:
    """Block by block into memory of the right size, where the frame is as clients write it.

    The library's own reader of frames passes every byte through two buffers. It is used for frames
    with checksums of their content, which it verifies.
    """
    blocks = _lz4_blocks(data)
    block_bytes_max = LZ4_PLAIN_FRAMES.get(bytes(data[4:LZ4_HEADER_BYTES_MIN]))
    if block_bytes_max is None:
        return _decompress_growing(cramjam.lz4.decompress_into, data, bytes_max)
    # A byte expands to 255 at most, so a frame of many empty blocks sets little aside.
    room = min(bytes_max, len(blocks) * block_bytes_max, LZ4_EXPANSION_MAX * len(data))
    output = scratch.room(room)
    filled = 0
    for block, is_stored in blocks:
        target = output[filled : filled + block_bytes_max]
        try:
            if is_stored:
                target[: len(block)] = block
                filled += len(block)
            else:
                filled += cramjam.lz4.decompress_block_into(block, target, output_len=0)
        except BAD_INPUT as trouble:
            # The library does not say which it is; too little room there is only at the bound.
            if room == bytes_max and len(target) < block_bytes_max:
                raise OversizedBatch(bytes_max) from trouble
            raise CorruptBatch(f"an lz4 block cannot be decompressed: {trouble}") from trouble
    return output[:filled]


def _lz4_blocks(data: memoryview) -> list[tuple[memoryview, bool]]:
    """The blocks of the frame, and whether each is stored as it is.

    Refuses what our library would expand but Kafka's own lz4 reader would not: a second frame,
    bytes after the frame, blocks that need the ones before them, and a dictionary. Once stored,
    such a batch would stop every Java consumer at its offset.
    """
    if len(data) < LZ4_HEADER_BYTES_MIN or LITTLE_UINT32.unpack_from(data)[0] != LZ4_MAGIC:
        raise CorruptBatch("not an lz4 frame")
    flags = data[4]
    if not flags & LZ4_BLOCKS_INDEPENDENT or flags & LZ4_DICTIONARY:
        raise CorruptBatch("an lz4 frame whose blocks cannot be read alone")
    position = LZ4_HEADER_BYTES_MIN + (8 if flags & LZ4_CONTENT_SIZE else 0)
    checksum_bytes = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    blocks: list[tuple[memoryview, bool]] = []
    while position + 4 <= len(data):
        (block_bytes,) = LITTLE_UINT32.unpack_from(data, position)
        position += 4
        if block_bytes == 0:
            position += 4 if flags & LZ4_CONTENT_CHECKSUM else 0
            if position < len(data):
                raise CorruptBatch("bytes after the end of the lz4 frame")
            return blocks
        is_stored = block_bytes >= LZ4_STORED
        block_end = position + (block_bytes & ~LZ4_STORED)
        blocks.append((data[position:block_end], is_stored))
        position = block_end + checksum_bytes
    raise CorruptBatch("the lz4 frame is cut off")


def _compress_snappy(data: memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts += (INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, bytes_max: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, bytes_max, bytes_max)
    parts: list[bytes] = []
    room = bytes_max
    position = len(XERIAL_HEADER)
    while position < len(data):
        start = position + INT32.size
        if start > len(data):
            raise CorruptBatch("a snappy block without its length")
        (block_bytes,) = INT32.unpack_from(data, position)
        position = start + block_bytes
        if block_bytes < 0 or position > len(data):
            raise CorruptBatch(f"a snappy block of {block_bytes} bytes")
        part = _decompress_snappy_block(data[start:position], room, bytes_max)
        room -= len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, bytes_max: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise OversizedBatch(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except BAD_INPUT as trouble:
        raise CorruptBatch(f"not snappy: {trouble}") from trouble


def _xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, the hash that lz4 frames use."""
    assert len(data) < 16, len(data)
    mask = 0xFFFFFFFF

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> 32 - by) & mask

    prime1, prime2, prime3, prime4, prime5 = (
        2654435761,
        2246822519,
        3266489917,
        668265263,
        374761393,
    )
    digest = prime5 + len(data)
    words_end = len(data) // 4 * 4
    for position in range(0, words_end, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        digest = rotate((digest + word * prime3) & mask, 17) * prime4 & mask
    for byte in data[words_end:]:
        digest = rotate((digest + byte * prime5) & mask, 11) * prime1 & mask
    digest = (digest ^ digest >> 15) * prime2 & mask
    digest = (digest ^ digest >> 13) * prime3 & mask
    return digest ^ digest >> 16


# Frames whose blocks are independent and without checksums, by flags, block descriptor and header
# checksum, with the size of a block: what Kafka's clients write.
LZ4_PLAIN_FRAMES = {
    bytes((LZ4_PLAIN, size, _xxh32_short(bytes((LZ4_PLAIN, size))) >> 8 & 0xFF)): 1 << 2 * shift
    for size, shift in ((0x40, 8), (0x50, 9), (0x60, 10), (0x70, 11))
}
LZ4_HEADER = LITTLE_UINT32.pack(LZ4_MAGIC) + next(iter(LZ4_PLAIN_FRAMES))
LZ4_BLOCK_BYTES = next(iter(LZ4_PLAIN_FRAMES.values()))

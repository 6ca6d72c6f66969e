"""lz4 frames: what stands around the compressed blocks.

    magic 4 | flags 1 | block size 1 | content size 8, if flagged | header checksum 1
    block:  size 4, top bit set where it is stored as it is | bytes | checksum 4, if flagged
    end:    0 as the size of a block | content checksum 4, if flagged

Numbers are little-endian; checksums are XXH32, of the header its second byte. Clients differ: Java
and librdkafka write blocks of 64 KiB without checksums, the Go clients 4 MiB with a checksum of the
content, python-lz4 the size of the content. All of these are read here.

Refused is what Apache Kafka's own reader refuses: a second frame, bytes after the frame, blocks
that depend on those before them, a dictionary, a block that is empty or larger than the header
allows. Once stored, such a batch would stop every Java consumer at its offset. Wrong checksums and
sizes of the content, which not every client looks at, are refused too, and so are more blocks than
`blocks_max`, since each costs time.
"""

from struct import Struct
from typing import Final

from penstock.records.errors import CorruptBatch
from penstock.records.layout import Buffer
from penstock.records.xxhash import xxh32

HEADER_BYTES_MIN: Final = 7  # magic, flags, block size, header checksum
MAGIC: Final = 0x184D2204
VERSION_MASK: Final = 0xC0
VERSION: Final = 0x40
BLOCKS_INDEPENDENT: Final = 0x20
BLOCK_CHECKSUM: Final = 0x10
CONTENT_SIZE: Final = 0x08
CONTENT_CHECKSUM: Final = 0x04
RESERVED: Final = 0x02
DICTIONARY: Final = 0x01
STORED: Final = 1 << 31  # set in the size of a block that is not compressed
LITTLE_UINT32: Final = Struct("<I")
LITTLE_UINT64: Final = Struct("<Q")
BLOCK_BYTES_MAX: Final = {0x40: 64 << 10, 0x50: 256 << 10, 0x60: 1 << 20, 0x70: 4 << 20}


class Lz4Frame:
    """One frame, its header and block checksums verified; the blocks are views, not yet expanded.

    Built per batch: plain slots.
    """

    __slots__ = (
        "block_bytes_max",
        "blocks",
        "content_checksum",
        "content_size",
    )

    blocks: list[tuple[memoryview, bool]]  # and whether each is stored as it is
    block_bytes_max: int  # none expands to more
    content_size: int | None
    content_checksum: int | None

    def __init__(self, data: memoryview, blocks_max: int) -> None:
        if len(data) < HEADER_BYTES_MIN or LITTLE_UINT32.unpack_from(data)[0] != MAGIC:
            raise CorruptBatch("not an lz4 frame")
        flags = data[4]
        if not flags & BLOCKS_INDEPENDENT or flags & DICTIONARY:
            raise CorruptBatch("an lz4 frame whose blocks cannot be read alone")
        self.content_size = self.content_checksum = None
        start = HEADER_BYTES_MIN
        if flags & CONTENT_SIZE:
            start += LITTLE_UINT64.size
            if start > len(data):
                raise CorruptBatch("the lz4 frame is cut off")
            (self.content_size,) = LITTLE_UINT64.unpack_from(data, 6)
        block_bytes_max = HEADERS.get(bytes(data[4:start]))
        if block_bytes_max is None:
            block_bytes_max = _check_header(data[4:start])
        self.block_bytes_max = block_bytes_max
        self._read_blocks(data, start, flags, blocks_max)

    def check_content(self, content: memoryview) -> None:
        """Whether the blocks expanded to what the frame says of its content."""
        if self.content_size is not None and self.content_size != len(content):
            raise CorruptBatch(
                f"an lz4 frame that promises {self.content_size} bytes holds {len(content)}"
            )
        if self.content_checksum is not None and self.content_checksum != xxh32(content):
            raise CorruptBatch("the content checksum of the lz4 frame does not match")

    def _read_blocks(self, data: memoryview, position: int, flags: int, blocks_max: int) -> None:
        blocks: list[tuple[memoryview, bool]] = []
        self.blocks = blocks
        checksum_bytes = 4 if flags & BLOCK_CHECKSUM else 0
        while position + 4 <= len(data):
            (block_bytes,) = LITTLE_UINT32.unpack_from(data, position)
            position += 4
            if block_bytes == 0:
                self._read_end(data, position, flags)
                return
            if len(blocks) == blocks_max:
                raise CorruptBatch(f"an lz4 frame of {len(data)} bytes in over {blocks_max} blocks")
            size_bytes = block_bytes & ~STORED
            if size_bytes == 0 or size_bytes > self.block_bytes_max:
                raise CorruptBatch(f"an lz4 block of {size_bytes} bytes")
            block_end = position + size_bytes
            block = data[position:block_end]
            blocks.append((block, block_bytes >= STORED))
            position = block_end + checksum_bytes
            if checksum_bytes and position <= len(data):
                (checksum,) = LITTLE_UINT32.unpack_from(data, block_end)
                if checksum != xxh32(block):
                    raise CorruptBatch("the checksum of an lz4 block does not match")
        raise CorruptBatch("the lz4 frame is cut off")

    def _read_end(self, data: memoryview, position: int, flags: int) -> None:
        if flags & CONTENT_CHECKSUM:
            if position + 4 > len(data):
                raise CorruptBatch("the lz4 frame is cut off")
            (self.content_checksum,) = LITTLE_UINT32.unpack_from(data, position)
            position += 4
        if position < len(data):
            raise CorruptBatch("bytes after the end of the lz4 frame")


def repair_lz4_header(frame: Buffer) -> bytes:
    """An lz4 frame with the header checksum that its descriptor should have."""
    repaired = bytearray(frame)
    if len(repaired) < HEADER_BYTES_MIN:
        raise CorruptBatch("an lz4 frame without a header")
    checksum_position = 14 if repaired[4] & CONTENT_SIZE else 6
    if checksum_position >= len(repaired):
        raise CorruptBatch("an lz4 frame without a header")
    repaired[checksum_position] = _header_checksum(bytes(repaired[4:checksum_position]))
    return bytes(repaired)


def _check_header(descriptor: memoryview) -> int:
    """The size of a block, of a header from its flags to its checksum."""
    if descriptor[0] & VERSION_MASK != VERSION or descriptor[0] & RESERVED:
        raise CorruptBatch("an lz4 frame of an unknown version")
    block_bytes_max = BLOCK_BYTES_MAX.get(descriptor[1])
    if block_bytes_max is None:
        raise CorruptBatch("an lz4 frame with an unknown size of blocks")
    if descriptor[-1] != _header_checksum(bytes(descriptor[:-1])):
        raise CorruptBatch("the header checksum of the lz4 frame does not match")
    return block_bytes_max


def _header_checksum(descriptor: bytes) -> int:
    return xxh32(descriptor) >> 8 & 0xFF


def _header(flags: int, size: int) -> bytes:
    descriptor = bytes((VERSION | BLOCKS_INDEPENDENT | flags, size))
    return descriptor + bytes((_header_checksum(descriptor),))


# Headers without a content size, from flags to checksum, so that none is computed per batch.
HEADERS: Final = {
    _header(flags, size): block_bytes_max
    for flags in (0, CONTENT_CHECKSUM, BLOCK_CHECKSUM, BLOCK_CHECKSUM | CONTENT_CHECKSUM)
    for size, block_bytes_max in BLOCK_BYTES_MAX.items()
}
# What is written here: blocks of 64 KiB without checksums, as the Java client's.
WRITTEN_HEADER: Final = LITTLE_UINT32.pack(MAGIC) + _header(0, 0x40)
WRITTEN_BLOCK_BYTES: Final = BLOCK_BYTES_MAX[0x40]

"""Compressed records as each client frames them.

    lz4     java     blocks of 64 KiB, nothing else: Java, librdkafka (and rust-rdkafka), aiokafka
            go       blocks of 4 MiB and a checksum of the content: franz-go, sarama, kafka-go
            python   blocks of 64 KiB and the size of the content: kafka-python
            rust     blocks of 64 KiB and a checksum of the content: rskafka
    snappy  java     xerial's header and blocks of 32 KiB: Java, kafka-python, aiokafka
            raw      one block: librdkafka, franz-go, sarama
    gzip    any      one stream
    zstd    java     without the size of the content: Java, librdkafka, rskafka
            python   with its size: kafka-python, aiokafka
            go       with its size and a checksum: franz-go, sarama

Frames whose blocks depend on those before them are no case: Apache Kafka refuses them, and so does
Penstock.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cramjam

from penstock.records.compression import Codec, compress
from penstock.records.layout import Buffer
from penstock.records.lz4_frame import (
    BLOCK_BYTES_MAX,
    BLOCKS_INDEPENDENT,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    LITTLE_UINT32,
    LITTLE_UINT64,
    MAGIC,
    STORED,
    VERSION,
)
from penstock.records.xxhash import xxh32

KIB64, MIB4 = 0x40, 0x70
ZSTD_CHECKSUM = 0x04
ZSTD_FLAGS_POSITION = 4
WORD = 2**64 - 1
PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    codec: Codec
    client: str
    compress: Callable[[bytes], Buffer]

    @property
    def name(self) -> str:
        codec = self.codec.name.lower()
        return f"{codec}-{self.client}" if self.client else codec


def lz4_frame(data: bytes, flags: int, block_size: int) -> bytes:
    descriptor = bytes((VERSION | BLOCKS_INDEPENDENT | flags, block_size))
    if flags & CONTENT_SIZE:
        descriptor += LITTLE_UINT64.pack(len(data))
    checksum = xxh32(descriptor) >> 8 & 0xFF
    parts = [LITTLE_UINT32.pack(MAGIC), descriptor, bytes((checksum,))]
    for start in range(0, len(data), BLOCK_BYTES_MAX[block_size]):
        plain = data[start : start + BLOCK_BYTES_MAX[block_size]]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (LITTLE_UINT32.pack(len(block)), block)
        else:
            parts += (LITTLE_UINT32.pack(len(plain) | STORED), plain)
    parts.append(LITTLE_UINT32.pack(0))
    if flags & CONTENT_CHECKSUM:
        parts.append(LITTLE_UINT32.pack(xxh32(data)))
    return b"".join(parts)


def streamed_zstd(data: bytes) -> bytes:
    """In several steps, so that the size is not known when the header is written."""
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


def sized_zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3))


def checked_zstd(data: bytes) -> bytes:
    frame = bytearray(sized_zstd(data))
    frame[ZSTD_FLAGS_POSITION] |= ZSTD_CHECKSUM
    return bytes(frame) + LITTLE_UINT32.pack(xxh64(data) & 0xFFFFFFFF)


def xxh64(data: bytes) -> int:
    """The checksum of zstd frames, with seed 0: too slow for anything but templates."""
    prime1, prime2, prime3, prime4, prime5 = PRIMES

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & WORD

    def mixed(lane: int, word: int) -> int:
        return rotate((lane + word * prime2) & WORD, 31) * prime1 & WORD

    stripes = len(data) // 32
    if stripes:
        words = memoryview(data[: stripes * 32]).cast("Q")
        lanes = [(prime1 + prime2) & WORD, prime2, 0, -prime1 & WORD]
        for at in range(0, stripes * 4, 4):
            lanes = [
                mixed(lane, word) for lane, word in zip(lanes, words[at : at + 4], strict=True)
            ]
        digest = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        digest &= WORD
        for lane in lanes:
            digest = ((digest ^ mixed(0, lane)) * prime1 + prime4) & WORD
    else:
        digest = prime5
    digest = (digest + len(data)) & WORD
    rest = data[stripes * 32 :]
    while len(rest) >= 8:
        digest ^= mixed(0, int.from_bytes(rest[:8], "little"))
        digest = (rotate(digest, 27) * prime1 + prime4) & WORD
        rest = rest[8:]
    if len(rest) >= 4:
        digest ^= int.from_bytes(rest[:4], "little") * prime1 & WORD
        digest = (rotate(digest, 23) * prime2 + prime3) & WORD
        rest = rest[4:]
    for byte in rest:
        digest = rotate(digest ^ byte * prime5 & WORD, 11) * prime1 & WORD
    digest = (digest ^ digest >> 33) * prime2 & WORD
    digest = (digest ^ digest >> 29) * prime3 & WORD
    return digest ^ digest >> 32


def as_penstock(codec: Codec) -> Callable[[bytes], Buffer]:
    return lambda data: compress(codec, data)


NOT_COMPRESSED = Framing(codec=Codec.NONE, client="", compress=as_penstock(Codec.NONE))
FRAMINGS = (
    Framing(codec=Codec.LZ4, client="java", compress=lambda data: lz4_frame(data, 0, KIB64)),
    Framing(
        codec=Codec.LZ4,
        client="go",
        compress=lambda data: lz4_frame(data, CONTENT_CHECKSUM, MIB4),
    ),
    Framing(
        codec=Codec.LZ4,
        client="python",
        compress=lambda data: lz4_frame(data, CONTENT_SIZE, KIB64),
    ),
    Framing(
        codec=Codec.LZ4,
        client="rust",
        compress=lambda data: lz4_frame(data, CONTENT_CHECKSUM, KIB64),
    ),
    Framing(codec=Codec.SNAPPY, client="java", compress=as_penstock(Codec.SNAPPY)),
    Framing(
        codec=Codec.SNAPPY,
        client="raw",
        compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    ),
    Framing(codec=Codec.GZIP, client="", compress=as_penstock(Codec.GZIP)),
    Framing(codec=Codec.ZSTD, client="java", compress=streamed_zstd),
    Framing(codec=Codec.ZSTD, client="python", compress=sized_zstd),
    Framing(codec=Codec.ZSTD, client="go", compress=checked_zstd),
)

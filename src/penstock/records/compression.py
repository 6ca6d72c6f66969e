"""Compression of records, whatever the codec.

`decompress` never makes more than `bytes_max` bytes of output, whatever the input promises, and
holds at most twice that at a time. gzip stops by itself at a given length; how the others are
bounded is told in `block_codecs`, which is loaded with the first batch that needs it.

Copies: none but the decompression itself, into memory that a node keeps from one batch to the next.
"""

import importlib
import zlib
from enum import IntEnum
from types import ModuleType
from typing import Final

from penstock.model.limit import BATCH_BLOCKS_MAX, BLOCK_BYTES_MIN
from penstock.records.errors import CorruptBatch, OversizedBatch
from penstock.records.layout import Buffer
from penstock.records.scratch import Scratch


class Codec(IntEnum):
    """How the records of a batch are compressed, by the number in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """The data compressed as clients expect it; None is Kafka's default level of the codec."""
    compressed: Buffer
    match codec:
        case Codec.NONE:
            compressed = data
        case Codec.GZIP:
            compressed = zlib.compress(data, _clamp(level, -1, 9, default=-1), wbits=GZIP_WBITS)
        case Codec.SNAPPY:
            compressed = _block_codecs().compress_snappy(memoryview(data))
        case Codec.LZ4:
            compressed = _block_codecs().compress_lz4(memoryview(data), level)
        case Codec.ZSTD:
            compressed = _block_codecs().compress_zstd(data, _clamp(level, -7, 22, default=3))
    return compressed


def decompress(
    codec: Codec,
    data: Buffer,
    *,
    bytes_max: int,
    scratch: Scratch | None = None,
    blocks_bounded: bool = False,
) -> Buffer:
    """The data expanded; OversizedBatch beyond `bytes_max`, CorruptBatch when it makes no sense.

    `blocks_bounded` refuses it also for blocks that are many and small, before it expands them.
    """
    assert bytes_max >= 0, bytes_max
    blocks_max = len(data)
    if blocks_bounded:
        blocks_max = BATCH_BLOCKS_MAX + len(data) // BLOCK_BYTES_MIN
    expanded: Buffer
    match codec:
        case Codec.NONE:
            if len(data) > bytes_max:
                raise OversizedBatch(bytes_max)
            expanded = data
        case Codec.GZIP:
            expanded = _decompress_gzip(data, bytes_max)
        case Codec.SNAPPY:
            expanded = _block_codecs().decompress_snappy(
                memoryview(data), bytes_max, blocks_max, scratch or Scratch()
            )
        case Codec.LZ4:
            expanded = _block_codecs().decompress_lz4(
                memoryview(data), bytes_max, blocks_max, scratch or Scratch()
            )
        case Codec.ZSTD:
            expanded = _block_codecs().decompress_zstd(data, bytes_max, scratch or Scratch())
    return expanded


GZIP_WBITS: Final = 31  # a window of 32 KiB and the gzip header


_loaded: ModuleType | None = None


def _block_codecs() -> ModuleType:
    global _loaded
    if _loaded is None:
        _loaded = importlib.import_module("penstock.records.block_codecs")
    return _loaded


def _clamp(level: int | None, low: int, high: int, *, default: int) -> int:
    return default if level is None else max(low, min(level, high))


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    expander = zlib.decompressobj(wbits=GZIP_WBITS)
    try:
        # A limit of 0 means none to zlib; one byte more than allowed tells that there is more.
        expanded = expander.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise CorruptBatch(f"not gzip: {error}") from error
    if len(expanded) > bytes_max:
        raise OversizedBatch(bytes_max)
    if not expander.eof:
        raise CorruptBatch("the gzip stream is cut off")
    if expander.unused_data:
        raise CorruptBatch("bytes after the end of the gzip stream")
    return expanded

"""What decompression alone costs, by the libraries that Penstock uses, in this process.

No broker that checks records can do with less, so this is the part of a cost that no change of
Penstock takes away. Memory for the output is the same each time, as in a node.
"""

import time
import zlib
from collections.abc import Callable

import cramjam
from cases import Case
from loading import Templates, compressed_payloads

from penstock.records.block_codecs import XERIAL_HEADER, XERIAL_MAGIC
from penstock.records.compression import GZIP_WBITS, Codec, decompress
from penstock.records.layout import INT32
from penstock.records.lz4_frame import Lz4Frame

ROUNDS = 8
BYTES_MAX = 16 * 1024 * 1024
GB = 1e9


def library_cost(case: Case, templates: Templates) -> float:
    """CPU seconds for a GB of values: the least of some rounds over all templates."""
    payloads = list(compressed_payloads(templates))
    steps = [step for payload in payloads for step in steps_of(case.framing.codec, payload)]
    value_bytes = len(payloads) * templates.values_per_batch * case.record_bytes
    return min(seconds_of(steps) for _ in range(ROUNDS)) / (value_bytes / GB)


def seconds_of(steps: list[Callable[[], object]]) -> float:
    started = time.process_time()
    for step in steps:
        step()
    return time.process_time() - started


def steps_of(codec: Codec, payload: bytes) -> list[Callable[[], object]]:
    """The calls of the library that expand a payload."""
    view = memoryview(payload)
    size = len(decompress(codec, view, bytes_max=BYTES_MAX))
    match codec:
        case Codec.GZIP:
            return [lambda: zlib.decompress(payload, GZIP_WBITS, size)]
        case Codec.ZSTD:
            return [lambda: cramjam.zstd.decompress_into(view, OUTPUT[:size])]
        case Codec.SNAPPY:
            blocks = xerial_blocks(view) if view[:8] == XERIAL_MAGIC else [view]
            return [
                lambda block=block: cramjam.snappy.decompress_raw_into(block, OUTPUT)
                for block in blocks
            ]
        case _:
            return [
                lambda block=block: cramjam.lz4.decompress_block_into(block, OUTPUT, output_len=0)
                for block, is_stored in Lz4Frame(view, blocks_max=len(view)).blocks
                if not is_stored
            ]


def xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    at = len(XERIAL_HEADER)
    while at < len(data):
        (block_bytes,) = INT32.unpack_from(data, at)
        blocks.append(data[at + INT32.size : at + INT32.size + block_bytes])
        at += INT32.size + block_bytes
    return blocks


OUTPUT = memoryview(bytearray(BYTES_MAX))

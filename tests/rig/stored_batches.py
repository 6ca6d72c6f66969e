"""Batch headers as they lie on disk, read without any code of the product.

0        8       12       16     17    21          23                 27
| offset | length | epoch | magic | crc | attributes | last offset delta |
27               35              43            51               53              57
| base timestamp | max timestamp | producer id | producer epoch | base sequence | count |  61
"""

import struct
from dataclasses import dataclass
from pathlib import Path

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    base_offset: int
    codec: str
    producer_id: int
    size_bytes: int
    record_count: int


def stored_batches(data: Path, topic: str, partition: int = 0) -> list[StoredBatch]:
    """All batches of a partition, whichever folder of `data` holds it."""
    [folder] = data.rglob(f"{topic}-{partition}")
    found = []
    for segment in sorted(folder.glob("*.log")):
        content, position = segment.read_bytes(), 0
        while position + HEADER.size <= len(content):
            fields = HEADER.unpack_from(content, position)
            if fields[1] == 0:
                break  # Apache Kafka may preallocate; nothing follows.
            size_bytes = 12 + fields[1]
            found.append(
                StoredBatch(
                    base_offset=fields[0],
                    codec=CODECS[fields[5] & 0b111],
                    producer_id=fields[9],
                    size_bytes=size_bytes,
                    record_count=fields[12],
                )
            )
            position += size_bytes
    return found

"""CRC32C (Castagnoli), the checksum of batch format v2: the one module that knows the library.

It reads the buffer in place: a memoryview costs no copy.
"""

from fastcrc.crc32 import iscsi

from penstock.records.layout import Buffer


def crc32c(buffer: Buffer, seed: int = 0) -> int:
    """The checksum of `buffer`; `seed` is that of the bytes before it, when they lie elsewhere."""
    checksum: int = iscsi(buffer, seed)
    return checksum

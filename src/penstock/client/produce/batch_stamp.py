"""Who wrote a batch, and in which order: the producer's part of a batch header, written in place.

A batch is compressed once, and may have to be numbered again: after a batch before it was given
up, the producer begins a new epoch (see `partition_queue`). So the stamp is laid on the finished
bytes, and the checksum, which covers it, is computed last. Whether the batch is part of a
transaction is said by a flag of its attributes.
"""

from struct import Struct

from penstock.records.checksum import crc32c
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    HEADER_BYTES,
    INT16,
    TRANSACTIONAL_FLAG,
    UINT32,
)

PRODUCER_POSITION = 43
_PRODUCER = Struct(">qhi")  # producer id, producer epoch, base sequence


def stamp(
    batch: bytearray,
    *,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> None:
    """Writes the three numbers, the flag and the checksum; nothing else of the batch changes."""
    assert len(batch) >= HEADER_BYTES, len(batch)
    assert base_sequence >= 0, base_sequence
    if transactional:
        [attributes] = INT16.unpack_from(batch, ATTRIBUTES_POSITION)
        INT16.pack_into(batch, ATTRIBUTES_POSITION, attributes | TRANSACTIONAL_FLAG)
    _PRODUCER.pack_into(batch, PRODUCER_POSITION, producer_id, epoch, base_sequence)
    with memoryview(batch) as view:
        UINT32.pack_into(batch, CHECKSUM_POSITION, crc32c(view[ATTRIBUTES_POSITION:]))

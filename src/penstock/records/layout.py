"""The bytes of a record batch: positions, sizes and flags, and nothing that computes with them.

A batch of format v2. Positions are from its first byte; all numbers are big-endian; `varint` and
`varlong` are zigzag-coded.

     0  base offset              int64    given by the leader, outside the checksum
     8  batch length             int32    bytes that follow this field
    12  partition leader epoch   int32    given by the leader, outside the checksum
    16  magic                    int8     2; at the same place in every format
    17  checksum                 uint32   CRC32C of everything from the attributes to the end
    21  attributes               int16    bits 0-2 codec, 3 timestamp type, 4 transactional,
                                          5 control, 6 base timestamp is the delete horizon
    23  last offset delta        int32
    27  base timestamp           int64
    35  max timestamp            int64
    43  producer id              int64    -1 when the producer is not idempotent
    51  producer epoch           int16
    53  base sequence            int32
    57  record count             int32
    61  records, one after the other, compressed as a whole when the codec says so

    record: length varint | attributes int8 | timestamp delta varlong | offset delta varint
            | key length varint (-1: null) | key | value length varint (-1: null) | value
            | header count varint | headers
    header: key length varint | key (UTF-8) | value length varint (-1: null) | value

A message of format v0 or v1. A message set is a row of these; a compressed one wraps a message
set in its value.

     0  offset                   int64    of a wrapper: the offset of its last inner message
     8  message size             int32    bytes that follow this field
    12  checksum                 uint32   CRC32 (zlib's) of everything from the magic to the end
    16  magic                    int8     0 or 1
    17  attributes               int8     bits 0-2 codec, 3 timestamp type
    18  timestamp                int64    in v1 only
        key length int32 (-1: null) | key | value length int32 (-1: null) | value

Invariants of a well-formed v2 batch:
 1. Its size is that of the header plus that of the records: batch length + 12.
 2. The checksum covers every byte from the attributes on.
 3. Record i has offset delta i when a producer wrote it; compaction may leave gaps, and the deltas
    still grow.
 4. The last offset delta is at least that of the last record; a producer writes record count - 1.
 5. The max timestamp is the largest of its records', or the time of the append under LogAppendTime.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import Offset

MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_V2: Final = 2

SIZE_POSITION: Final = 8
OVERHEAD_BYTES: Final = 12  # base offset and batch length, which the length does not count
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16

# Format v2
CHECKSUM_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35
RECORDS_POSITION: Final = 61
HEADER_BYTES: Final = RECORDS_POSITION
HEADER: Final = Struct(">qiibIhiqqqhii")
NUMBERED: Final = Struct(">qii")  # what a leader writes into it: base offset, length, leader epoch

# Formats v0 and v1
LEGACY_CHECKSUM_POSITION: Final = 12
LEGACY_HEADER: Final = {MAGIC_V0: Struct(">qiIbb"), MAGIC_V1: Struct(">qiIbbq")}
LEGACY_BYTES_MIN: Final = {MAGIC_V0: 26, MAGIC_V1: 34}  # null key, null value

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
UINT32: Final = Struct(">I")

# Attributes
CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
FIRST_OFFSET: Final = Offset(0)

Buffer = bytes | bytearray | memoryview


class TimestampType(IntEnum):
    """Whose clock the timestamps of a batch tell."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

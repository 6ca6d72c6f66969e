"""What the record kernel and its twin give back, and columns as they are handed to them.

A column of bytes is laid out as in Arrow: all contents in one buffer, offsets into it, one more
than there are rows, and a bit per row: whether it is not null. Numbers are in native order.
"""

from typing import NamedTuple

from penstock.records.layout import Buffer


class Walked(NamedTuple):
    """What `check_records` saw. A record is listed once at most, a missing key before its time."""

    timestamp_max: int  # of the records within bounds; NO_TIMESTAMP when none has a timestamp
    offsets_dense: bool  # record i has offset delta i
    keyless_count: int  # of the records without a key, when keys were required
    untimely_count: int  # of the others that are out of bounds
    keyless: list[int]  # their indexes, the first RECORD_ERRORS_MAX
    untimely: list[tuple[int, int]]  # index and timestamp, the first RECORD_ERRORS_MAX


class Encoded(NamedTuple):
    """Records as they stand in a batch, before compression."""

    payload: bytearray
    record_count: int
    base_timestamp: int
    max_timestamp: int


class Filtered(NamedTuple):
    """The records that `filter_records` kept."""

    payload: bytearray
    record_count: int
    max_timestamp: int  # NO_TIMESTAMP when none was kept


class BytesColumn(NamedTuple):
    data: Buffer
    offsets: Buffer  # of int32 or int64
    offset_bytes: int = 4
    validity: Buffer | None = None  # None: nothing is null; else bit i % 8 of byte i // 8
    start: int = 0  # of the offsets and the validity, the place where row 0 stands


class RecordColumns(NamedTuple):
    """All records of a batch, decoded by `read_columns`."""

    row_count: int
    offsets: bytes  # of int64
    timestamps: bytes  # of int64
    keys: BytesColumn
    values: BytesColumn
    headers: BytesColumn  # as they stand in a record, from their count on

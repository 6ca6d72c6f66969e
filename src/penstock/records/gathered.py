"""Records of many batches in one set of columns: what goes in and what comes out.

Columns are laid out as in Arrow (see `walked`), so that whoever speaks Arrow takes them as they
are. No record becomes a Python object.
"""

from typing import NamedTuple

from penstock.records.layout import Buffer
from penstock.records.walked import BytesColumn


class Payload(NamedTuple):
    """The encoded records of one batch, uncompressed, and what its header says of them."""

    records: Buffer
    record_count: int
    base_offset: int
    base_timestamp: int
    fixed_timestamp: int | None  # the time of every record, under LogAppendTime


class HeaderColumns(NamedTuple):
    """A list for each row: headers `bounds[row]` to `bounds[row + 1]`; null for a row of none."""

    bounds: bytes  # of int32, one more than there are rows
    validity: bytes
    keys: BytesColumn
    values: BytesColumn


class GatheredColumns(NamedTuple):
    row_count: int
    offsets: bytes  # of int64
    timestamps: bytes  # of int64
    keys: BytesColumn | None  # None: not asked for
    values: BytesColumn | None
    headers: HeaderColumns | None

from collections.abc import Iterable

from penstock.records.layout import Buffer
from penstock.records.record import Record
from penstock.records.walked import BytesColumn, Encoded, Filtered

def encode_records(records: Iterable[Record]) -> Encoded: ...
def encode_columns(
    keys: BytesColumn | None,
    values: BytesColumn | None,
    headers: BytesColumn | None,
    timestamps: Buffer,
    order: Buffer | None,
    start: int,
    stop: int,
    bytes_max: int,
) -> Encoded: ...
def encode_header_columns(
    names: BytesColumn, contents: BytesColumn, counts: Buffer
) -> BytesColumn: ...
def renumber_records(payload: Buffer, record_count: int) -> bytearray: ...
def filter_records(
    payload: Buffer,
    record_count: int,
    keep: Buffer,
    base_timestamp: int,
    new_base_timestamp: int,
) -> Filtered: ...
def murmur2(data: Buffer) -> int: ...
def partitions_of(keys: BytesColumn, partition_count: int, start: int, stop: int) -> bytes: ...

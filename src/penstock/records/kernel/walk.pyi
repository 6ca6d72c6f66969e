from collections.abc import Iterator

from penstock.records.layout import Buffer
from penstock.records.record import Record
from penstock.records.walked import RecordColumns, Walked

def check_records(
    payload: Buffer,
    record_count: int,
    base_timestamp: int,
    timestamp_low: int,
    timestamp_high: int,
    key_required: bool,
) -> Walked: ...
def read_records(
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> Iterator[Record]: ...
def read_columns(
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> RecordColumns: ...

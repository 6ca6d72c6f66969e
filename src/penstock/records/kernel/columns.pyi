from collections.abc import Sequence

from penstock.records.gathered import GatheredColumns, Payload

def gather_columns(
    payloads: Sequence[Payload],
    start_offset: int,
    end_offset: int,
    keys: bool,
    values: bool,
    headers: bool,
    timestamp_factor: int = 1,
) -> GatheredColumns: ...

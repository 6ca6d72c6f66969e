"""Records of many batches as columns, in Python, where no kernel was compiled."""

from array import array
from collections.abc import Sequence

from penstock.records.gathered import GatheredColumns, HeaderColumns, Payload
from penstock.records.twin.walk import (
    INT32_CODES,
    INT64_LIMIT,
    GrowingColumn,
    fields_of,
    nullable_bytes,
    varint,
    wrap_int64,
)
from penstock.records.walked import BytesColumn


def gather_columns(
    payloads: Sequence[Payload],
    start_offset: int,
    end_offset: int,
    keys: bool,
    values: bool,
    headers: bool,
    timestamp_factor: int = 1,
) -> GatheredColumns:
    """Every record with start_offset <= offset < end_offset, in the order they stand; of keys,
    values and headers those that are asked for. Timestamps are multiplied, for those who count in
    other units; one that is too large for that becomes the largest that there is.

    CorruptBatch unless each payload is exactly so many well-formed records as it should be.
    """
    bound = (INT64_LIMIT - 1) // timestamp_factor
    offsets = array("q")
    timestamps = array("q")
    key_column = GrowingColumn()
    value_column = GrowingColumn()
    header_column = _HeaderColumn()
    for payload in payloads:
        fixed = payload.fixed_timestamp
        for fields in fields_of(bytes(payload.records), payload.record_count):
            timestamp_delta, offset_delta, key, value, _, found = fields
            offset = wrap_int64(payload.base_offset + offset_delta)
            if not start_offset <= offset < end_offset:
                continue
            offsets.append(offset)
            timestamp = (
                wrap_int64(payload.base_timestamp + timestamp_delta) if fixed is None else fixed
            )
            if timestamp_factor != 1:
                timestamp = max(-bound, min(bound, timestamp)) * timestamp_factor
            timestamps.append(timestamp)
            key_column.append(key)
            value_column.append(value)
            header_column.append(found)
    return GatheredColumns(
        len(offsets),
        offsets.tobytes(),
        timestamps.tobytes(),
        _finished(key_column) if keys else None,
        _finished(value_column) if values else None,
        header_column.finish() if headers else None,
    )


class _HeaderColumn:
    def __init__(self) -> None:
        self._bounds = array("i", (0,))
        self._validity = bytearray()
        self._keys = GrowingColumn()
        self._values = GrowingColumn()

    def append(self, encoded: bytes) -> None:
        row = len(self._bounds) - 1
        if row % 8 == 0:
            self._validity.append(0)
        code, position = varint(encoded, 0, INT32_CODES)
        count = code >> 1
        if count:
            self._validity[row // 8] |= 1 << row % 8
        for _ in range(count):
            key, position = nullable_bytes(encoded, position, len(encoded))
            value, position = nullable_bytes(encoded, position, len(encoded))
            self._keys.append(key)
            self._values.append(value)
        self._bounds.append(self._bounds[-1] + count)

    def finish(self) -> HeaderColumns:
        return HeaderColumns(
            self._bounds.tobytes(),
            bytes(self._validity),
            _finished(self._keys),
            _finished(self._values),
        )


def _finished(column: GrowingColumn) -> BytesColumn:
    """With a validity only where something is null."""
    finished = column.finish()
    return finished._replace(validity=finished.validity if column.has_nulls else None)

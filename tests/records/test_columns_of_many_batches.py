"""Columns gathered from many batches: what the records are, by kernel and twin alike."""

from array import array
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.errors import CorruptBatch
from penstock.records.gathered import GatheredColumns, Payload
from penstock.records.record import Record
from penstock.records.twin import columns as twin_columns
from penstock.records.twin import write as twin_write
from penstock.records.walked import BytesColumn

kernel_columns = pytest.importorskip(
    "penstock.records.kernel.columns", reason="needs the compiled record kernel"
)

field = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), field), max_size=3).map(tuple)
record = st.builds(Record, field, field, headers, st.integers(-1, 2**41))
batch = st.tuples(st.lists(record, max_size=12), st.none() | st.integers(0, 2**41))
batches = st.lists(batch, max_size=5)

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...] | None]


def payloads_of(some: list[tuple[list[Record], int | None]]) -> tuple[list[Payload], list[Row]]:
    """Batches one after the other, a gap of one offset between them, and the rows they hold."""
    payloads, rows, offset = [], [], 0
    for records, fixed in some:
        encoded = twin_write.encode_records(records)
        payloads.append(
            Payload(encoded.payload, encoded.record_count, offset, encoded.base_timestamp, fixed)
        )
        for index, one in enumerate(records):
            kept = tuple((key.encode(), value) for key, value in one.headers)
            timestamp = one.timestamp_ms if fixed is None else fixed
            rows.append((offset + index, timestamp, one.key, one.value, kept or None))
        offset += len(records) + 1
    return payloads, rows


def cells(column: BytesColumn) -> list[Any]:
    ends = array("i", column.offsets)
    return [
        column.data[start:end] if present(column.validity, row) else None
        for row, (start, end) in enumerate(pairwise(ends))
    ]


def present(validity: Any, row: int) -> bool:
    return validity is None or bool(validity[row // 8] >> row % 8 & 1)


def rows_of(found: GatheredColumns) -> list[Row]:
    assert found.keys is not None
    assert found.values is not None
    assert found.headers is not None
    pairs = list(zip(cells(found.headers.keys), cells(found.headers.values), strict=True))
    lists = [
        tuple(pairs[start:end]) if present(found.headers.validity, row) else None
        for row, (start, end) in enumerate(pairwise(array("i", found.headers.bounds)))
    ]
    return list(
        zip(
            array("q", found.offsets),
            array("q", found.timestamps),
            cells(found.keys),
            cells(found.values),
            lists,
            strict=True,
        )
    )


@settings(deadline=None, max_examples=100)
@given(some=batches, start=st.integers(-1, 40), length=st.integers(0, 60))
def test_rows_are_the_records_within_the_range(
    some: list[tuple[list[Record], int | None]], start: int, length: int
) -> None:
    payloads, rows = payloads_of(some)
    expected = [row for row in rows if start <= row[0] < start + length]
    for module in (kernel_columns, twin_columns):
        found = module.gather_columns(payloads, start, start + length, True, True, True)
        assert found.row_count == len(expected)
        assert rows_of(found) == expected


@settings(deadline=None, max_examples=60)
@given(some=batches, wanted=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_kernel_and_twin_agree_byte_by_byte(
    some: list[tuple[list[Record], int | None]], wanted: tuple[bool, bool, bool]
) -> None:
    payloads, _ = payloads_of(some)
    by_kernel = kernel_columns.gather_columns(payloads, 0, 2**62, *wanted)
    by_twin = twin_columns.gather_columns(payloads, 0, 2**62, *wanted)
    assert by_kernel == by_twin
    columns = (by_kernel.keys, by_kernel.values, by_kernel.headers)
    assert tuple(column is not None for column in columns) == wanted


@settings(deadline=None, max_examples=100)
@given(some=batches, at=st.integers(0, 200), byte=st.integers(0, 255), count=st.integers(-1, 1))
def test_damage_is_found_alike(
    some: list[tuple[list[Record], int | None]], at: int, byte: int, count: int
) -> None:
    payloads, _ = payloads_of(some)
    for index, payload in enumerate(payloads):
        damaged = bytearray(payload.records)
        if damaged:
            damaged[at % len(damaged)] = byte
        payloads[index] = payload._replace(
            records=bytes(damaged), record_count=payload.record_count + count
        )
    answers = []
    for module in (kernel_columns, twin_columns):
        try:
            answers.append(module.gather_columns(payloads, 0, 2**62, True, True, True))
        except CorruptBatch as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("module", [kernel_columns, twin_columns])
def test_timestamps_come_in_the_unit_asked_for_and_end_at_its_ends(module: Any) -> None:
    some = [Record(None, None, (), time) for time in (-1, 0, 5, 2**63 - 1, -(2**63))]
    payloads, _ = payloads_of([(some, None)])
    found = array("q", module.gather_columns(payloads, 0, 9, False, False, False, 1000).timestamps)
    largest = (2**63 - 1) // 1000 * 1000
    assert list(found) == [-1000, 0, 5000, largest, -largest]
    plain = array("q", module.gather_columns(payloads, 0, 9, False, False, False).timestamps)
    assert list(plain) == [one.timestamp_ms for one in some]


def test_no_batch_at_all_makes_columns_of_no_row() -> None:
    for module in (kernel_columns, twin_columns):
        found = module.gather_columns([], 0, 10, True, True, True)
        assert rows_of(found) == []

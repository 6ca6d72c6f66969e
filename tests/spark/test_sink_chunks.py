"""Rows are encoded in pieces that have the columns which are written, and no others."""

import pyarrow as pa

from penstock.spark.sink.chunks import chunks_of
from penstock.spark.sink.columns import Columns

COLUMNS = Columns(value=2, key=0)
WIDE = b"w" * 10_000


def rows_of(first: int, count: int) -> pa.RecordBatch:
    """As Spark hands them over, with a column between that is not written."""
    numbers = [b"%04d" % one for one in range(first, first + count)]
    columns = [pa.array(numbers), pa.array([WIDE] * count), pa.array(numbers)]
    return pa.record_batch(columns, names=["key", "picture", "value"])


def chunked(rows: list[pa.RecordBatch], chunk_bytes: int) -> list[pa.RecordBatch]:
    return list(chunks_of(iter(rows), COLUMNS.places, chunk_bytes=chunk_bytes))


def test_chunks_hold_every_row_in_order_and_have_the_size_that_is_asked_for() -> None:
    chunks = chunked([rows_of(first, 100) for first in range(0, 1000, 100)], 5_000)
    assert all(chunk.nbytes >= 5_000 for chunk in chunks[:-1])
    assert 1 < len(chunks) < 10
    found = [value for chunk in chunks for value in chunk.column(COLUMNS.alone.value).to_pylist()]
    assert found == [b"%04d" % one for one in range(1000)]


def test_columns_that_are_not_written_are_neither_copied_nor_counted() -> None:
    before = pa.total_allocated_bytes()
    rows = [rows_of(first, 100) for first in range(0, 500, 100)]
    given = pa.total_allocated_bytes() - before
    [chunk] = chunked(rows, 100_000)  # a tenth of one picture column
    copied = pa.total_allocated_bytes() - before - given
    assert chunk.num_rows == 500
    assert copied < given / 100


def test_a_batch_that_is_large_enough_is_not_copied() -> None:
    rows = rows_of(0, 100)
    before = pa.total_allocated_bytes()
    [chunk] = chunked([rows], 500)
    assert chunk.num_rows == 100
    assert pa.total_allocated_bytes() == before


def test_empty_batches_are_no_chunks() -> None:
    assert chunked([rows_of(0, 0), rows_of(0, 0)], 1) == []


def test_columns_are_found_where_they_stand_among_themselves() -> None:
    columns = Columns(value=4, key=7, headers=1)
    names = {place: name for name, place in (("value", 4), ("key", 7), ("headers", 1))}
    alone = [names[place] for place in columns.places]
    packed = columns.alone
    assert packed.key is not None
    assert packed.headers is not None
    assert [alone[one] for one in (packed.value, packed.key, packed.headers)] == [
        "value",
        "key",
        "headers",
    ]
    assert (packed.topic, packed.partition, packed.timestamp) == (None, None, None)

"""Rows in pieces of a size at which they are encoded, and of the columns that are.

Spark hands over 10,000 rows at a time, unless `spark.sql.execution.arrow.maxRecordsPerBatch` says
otherwise. Small rows are gathered: a record batch does not reach across two chunks, so a chunk has
enough bytes for whole batches of each partition. Copies: one of those that are gathered, none where
one of Spark's batches is a chunk, and none of a column that is not written.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa


def chunks_of(
    rows: Iterator[pa.RecordBatch], places: Sequence[int], *, chunk_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The same rows with the columns at these places, in pieces of at least so many bytes; the last
    one is what is left.
    """
    gathered: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in rows:
        if batch.num_rows:
            gathered.append(batch.select(list(places)))
            size_bytes += gathered[-1].nbytes
        if size_bytes >= chunk_bytes:
            yield _joined(gathered)
            gathered, size_bytes = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

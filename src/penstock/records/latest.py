"""What a compacted log comes to: the last value of each key, in the order of their last records.

That is what compaction would leave of it, so whatever is built from these is what all the records
would have built, and far fewer have to be decoded.
"""

from collections.abc import Iterator
from itertools import pairwise

from penstock.model.limit import DECOMPRESSED_BYTES_MAX
from penstock.records.batch import BatchView
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import payload_of
from penstock.records.walk import read_columns
from penstock.records.walked import BytesColumn


class LatestValues:
    """Collects batches; `take` gives keys with their values and forgets them."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}

    def add(self, batch: BatchView) -> None:
        """CorruptBatch when it is damaged."""
        if batch.is_control:
            if not batch.checksum_matches():
                raise CorruptBatch(f"the checksum at offset {batch.base_offset} is wrong")
            return
        values = self._values
        for key, value in keyed(batch):
            if key is not None:
                values.pop(key, None)  # so that it takes its place at the end
                values[key] = value

    def put(self, key: bytes, value: bytes | None) -> None:
        """As if a batch had come with this record."""
        self._values.pop(key, None)
        self._values[key] = value

    def take(self) -> Iterator[tuple[bytes, bytes | None]]:
        taken, self._values = self._values, {}
        yield from taken.items()


def keyed(batch: BatchView) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The keys and values of a batch. CorruptBatch when it is damaged."""
    if not batch.checksum_matches():
        raise CorruptBatch(f"the checksum at offset {batch.base_offset} is wrong")
    columns = read_columns(
        payload_of(batch, bytes_max=DECOMPRESSED_BYTES_MAX),
        batch.record_count,
        batch.base_offset,
        batch.base_timestamp,
        None,
    )
    yield from zip(_cells(columns.keys), _cells(columns.values), strict=True)


def _cells(column: BytesColumn) -> Iterator[bytes | None]:
    """The rows of a column, one object each."""
    assert column.start == 0
    data = bytes(column.data)
    bounds = memoryview(column.offsets).cast("B").cast("i" if column.offset_bytes == 4 else "q")
    validity = column.validity
    for row, (start, end) in enumerate(pairwise(bounds)):
        if validity is not None and not validity[row >> 3] >> (row & 7) & 1:
            yield None
        else:
            yield data[start:end]

"""What a journal comes to: the last record of each key, in the order in which these were written.

That is what compaction would leave of it, so a state that is built from these is the state that all
the records would have built, and far fewer have to be decoded: a group that commits every few
seconds rewrites the same keys for as long as no compaction passes.
"""

from collections.abc import Iterator
from itertools import pairwise

from penstock.groups.records import GroupRecord, UnreadableGroupRecord, decode
from penstock.model.limit import DECOMPRESSED_BYTES_MAX
from penstock.records.batch import BatchView
from penstock.records.iterate import payload_of
from penstock.records.trouble import CorruptBatch
from penstock.records.walk import read_columns
from penstock.records.walked import BytesColumn


class LatestRecords:
    """Collects batches; `take` gives the records and forgets them."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}

    def add(self, batch: BatchView) -> None:
        """UnreadableGroupRecord when the batch is damaged."""
        if not batch.checksum_matches():
            raise UnreadableGroupRecord(f"the checksum at offset {batch.base_offset} is wrong")
        if batch.is_control:
            return
        try:
            columns = read_columns(
                payload_of(batch, bytes_max=DECOMPRESSED_BYTES_MAX),
                batch.record_count,
                batch.base_offset,
                batch.base_timestamp,
                None,
            )
        except CorruptBatch as trouble:
            raise UnreadableGroupRecord(str(trouble)) from trouble
        values = self._values
        for key, value in zip(_cells(columns.keys), _cells(columns.values), strict=True):
            if key is not None:
                values.pop(key, None)  # so that it takes its place at the end
                values[key] = value

    def take(self) -> Iterator[GroupRecord]:
        """UnreadableGroupRecord at the first that is damaged."""
        taken, self._values = self._values, {}
        for key, value in taken.items():
            record = decode(key, value)
            if record is not None:
                yield record


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

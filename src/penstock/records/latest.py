"""What a compacted log comes to: the last value of each key, in the order of their last records.

That is what compaction would leave of it, so whatever is built from these is what all the records
would have built, and far fewer have to be decoded.
"""

from collections.abc import Iterator

from penstock.records.batch import BatchView
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of


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


def keyed(batch: BatchView) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values of a batch. CorruptBatch when it is damaged."""
    if not batch.checksum_matches():
        raise CorruptBatch(f"the checksum at offset {batch.base_offset} is wrong")
    # Most batches of a journal have one record; columns would take seven times as long for it.
    return [(record.key, record.value) for record in records_of(batch)]

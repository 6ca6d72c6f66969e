"""What a journal comes to: the last record of each key, in the order in which these were written.

A group that commits every few seconds rewrites the same keys for as long as no compaction passes.
"""

from collections.abc import Iterator

from penstock.groups.records import GroupRecord, UnreadableGroupRecord, decode
from penstock.records.batch import BatchView
from penstock.records.latest import LatestValues
from penstock.records.trouble import CorruptBatch


class LatestRecords:
    """Collects batches; `take` gives the records and forgets them."""

    def __init__(self) -> None:
        self._latest = LatestValues()

    def add(self, batch: BatchView) -> None:
        """UnreadableGroupRecord when the batch is damaged."""
        try:
            self._latest.add(batch)
        except CorruptBatch as trouble:
            raise UnreadableGroupRecord(str(trouble)) from trouble

    def take(self) -> Iterator[GroupRecord]:
        """UnreadableGroupRecord at the first that is damaged."""
        for key, value in self._latest.take():
            record = decode(key, value)
            if record is not None:
                yield record

"""Replay of a journal of transactions: the last record of each transactional id."""

from collections.abc import Iterator

from penstock.records.batch import BatchView
from penstock.records.errors import CorruptBatch
from penstock.records.latest import LatestValues
from penstock.transactions.records import TransactionStored, UnreadableTransactionRecord, decode


class LatestTransactions:
    """Collects batches; `take` gives the records and forgets them."""

    def __init__(self) -> None:
        self._latest = LatestValues()

    def add(self, batch: BatchView) -> None:
        """UnreadableTransactionRecord when the batch is damaged."""
        try:
            self._latest.add(batch)
        except CorruptBatch as error:
            raise UnreadableTransactionRecord(str(error)) from error

    def take(self) -> Iterator[TransactionStored]:
        """UnreadableTransactionRecord at the first that is damaged."""
        for key, value in self._latest.take():
            record = decode(key, value)
            if record is not None:
                yield record

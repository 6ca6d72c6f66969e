"""What a fetch brought of one partition, and its records, decoded as they are asked for.

Checked here: the checksum of each batch. Left out: records before the position asked for (a
broker returns whole batches), markers of transactions, and, for `read_committed`, records of
transactions that were aborted. The position after the last record is that after its batch, so
that a compacted or filtered tail is never asked for again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.client.consume.visible_batches import Aborted, VisibleBatches
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView, whole_batches
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.layout import TimestampType


class ConsumedRecord(NamedTuple):
    """A record with its place. Built per record, hence a tuple."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: LeaderEpoch


class FetchedData:
    """The bytes of one partition in one fetch reply, which this object owns."""

    def __init__(
        self,
        partition: TopicPartition,
        data: memoryview,
        *,
        position: Offset,
        read_committed: bool,
        aborted: Sequence[Aborted] = (),
    ) -> None:
        self.partition = partition
        self.size_bytes = len(data)
        self.position = position  # the offset after the last record that was taken
        self.leader_epoch: LeaderEpoch | None = None  # of the batch that ends there or goes on
        self.end_offset = position  # the offset after the last whole batch
        for batch in _readable(data):
            self.end_offset = max(self.end_offset, batch.next_offset)
        self._visible = VisibleBatches(read_committed=read_committed, aborted=aborted)
        self.exhausted = False
        self.error: CorruptBatch | None = None  # why reading ended early
        self._records = self._walk(data)

    def take(self, count: int) -> list[ConsumedRecord]:
        """Up to `count` records; fewer only when that was all, or all up to `error`."""
        taken: list[ConsumedRecord] = []
        try:
            while len(taken) < count:
                taken.append(next(self._records))
        except StopIteration:
            self.exhausted = True
        except CorruptBatch as error:
            # What stands before it is good, and its reader gets it first.
            self.exhausted = True
            self.error = error
        return taken

    def _walk(self, data: memoryview) -> Iterator[ConsumedRecord]:
        topic, index = self.partition
        for batch in whole_batches(data):
            if not batch.checksum_matches():
                raise CorruptBatch(
                    f"{self.partition}: wrong checksum of the batch at offset {batch.base_offset}"
                )
            self.leader_epoch = batch.leader_epoch
            if self._visible.shows(batch):
                start = self.position
                timestamp_type, epoch = batch.timestamp_type, batch.leader_epoch
                for record in records_of(batch):
                    offset = record.offset
                    if offset < start:
                        continue
                    self.position = Offset(offset + 1)
                    yield ConsumedRecord(
                        topic,
                        index,
                        offset,
                        record.timestamp_ms,
                        timestamp_type,
                        record.key,
                        record.value,
                        record.headers,
                        epoch,
                    )
            self.position = max(self.position, batch.next_offset)


def _readable(data: memoryview) -> Iterator[BatchView]:
    """Whole batches up to the first that is none; who takes the records is told of that one."""
    with suppress(CorruptBatch):
        yield from whole_batches(data)

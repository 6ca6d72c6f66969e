"""Replay of a journal: the last record of each key, in the order in which these were written.

A group that commits every few seconds writes the same keys again and again until the next
compaction. Offsets of a transaction become valid with its marker, by the rules of
`offsets/pending`; those of a transaction that is open at the end are returned as pending. As there
may be ten thousand of these, pending offsets are also indexed by key.
"""

from collections.abc import Iterator

from penstock.groups.records import (
    GroupRecord,
    OffsetCommitted,
    TransactionalOffset,
    UnreadableGroupRecord,
    decode,
)
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.records.batch import BatchView
from penstock.records.control import read_end_transaction
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.latest import LatestValues, keyed

Open = dict[bytes, tuple[int, ProducerEpoch, bytes | None]]  # by key: number, epoch, value


class LatestRecords:
    """Collects batches; `take` gives the records and forgets them."""

    def __init__(self) -> None:
        self._latest = LatestValues()
        self._open: dict[ProducerId, Open] = {}
        self._holders: dict[bytes, dict[ProducerId, None]] = {}
        self._written = 0

    def add(self, batch: BatchView) -> None:
        """UnreadableGroupRecord when the batch is damaged."""
        try:
            if batch.is_control:
                self._end(batch)
            elif batch.is_transactional:
                self._hold(batch)
            else:
                self._void(batch)
                self._latest.add(batch)
        except CorruptBatch as error:
            raise UnreadableGroupRecord(str(error)) from error

    def take(self) -> Iterator[GroupRecord]:
        """UnreadableGroupRecord at the first that is damaged."""
        for key, value in self._latest.take():
            record = decode(key, value)
            if record is not None:
                yield record
        pending = [
            (number, producer_id, epoch, key, value)
            for producer_id, held in self._open.items()
            for key, (number, epoch, value) in held.items()
        ]
        self._open = {}
        self._holders = {}
        for _, producer_id, epoch, key, value in sorted(pending, key=lambda one: one[0]):
            offset = decode(key, value)
            if isinstance(offset, OffsetCommitted) and offset.value is not None:
                yield TransactionalOffset(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group=offset.group,
                    topic=offset.topic,
                    partition=offset.partition,
                    value=offset.value,
                )

    def _hold(self, batch: BatchView) -> None:
        producer_id = batch.producer_id
        held = self._open.setdefault(producer_id, {})
        for key, value in keyed(batch):
            self._written += 1
            if key is not None:
                held[key] = (self._written, batch.producer_epoch, value)
                self._holders.setdefault(key, {})[producer_id] = None

    def _void(self, batch: BatchView) -> None:
        if self._holders:
            for key, _ in keyed(batch):
                if key is not None:
                    self._drop(key, before=self._written + 1)

    def _end(self, batch: BatchView) -> None:
        if not batch.checksum_matches():
            raise CorruptBatch(
                f"the checksum of the batch at offset {batch.base_offset} does not match"
            )
        record = next(iter(records_of(batch)), None)
        marker = None if record is None else read_end_transaction(record)
        if marker is None:
            return
        held = self._open.pop(batch.producer_id, {})
        for key, (number, _, value) in held.items():
            self._forget(key, batch.producer_id)
            if marker.committed:
                self._drop(key, before=number)
                self._latest.put(key, value)

    def _drop(self, key: bytes, *, before: int) -> None:
        for producer_id in tuple(self._holders.get(key, ())):
            held = self._open[producer_id]
            if held[key][0] < before:
                del held[key]
                if not held:
                    del self._open[producer_id]
                self._forget(key, producer_id)

    def _forget(self, key: bytes, producer_id: ProducerId) -> None:
        holders = self._holders[key]
        del holders[producer_id]
        if not holders:
            del self._holders[key]

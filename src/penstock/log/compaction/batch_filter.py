"""What compaction keeps of one batch: all, a smaller batch, an empty batch, or nothing.

    untouched     byte for byte as it was
    smaller       same offsets, same header, fewer records, compressed as before
    with horizon  the base timestamp is the time from which its tombstones may go (KIP-534); the
                  records' timestamps are the same, counted from there
    empty         61 bytes of header: the sequence numbers of a producer, or where a segment ends

Invariants:
 1. Base offset, last offset, leader epoch, producer, sequence: never changed.
 2. A tombstone or a marker is removed only after readers had delete.retention.ms to read it.
"""

from penstock.log.aborted_index import AbortedTransaction
from penstock.log.compaction.plan import CleaningPass
from penstock.log.compaction.transactions import Transactions
from penstock.model.limit import DECOMPRESSED_BYTES_MAX
from penstock.model.settings.setting import LONG_MAX
from penstock.records.batch import BatchView
from penstock.records.checksum import crc32c
from penstock.records.compression import compress
from penstock.records.iterate import payload_of
from penstock.records.keys import SUPERSEDED, TOMBSTONE, KeyOffsets
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    UINT32,
    Buffer,
    TimestampType,
)
from penstock.records.write import filter_records

WITHOUT_TOMBSTONES = bytes(SUPERSEDED if fate == TOMBSTONE else fate for fate in range(256))
KEEP = b"\x01"


class BatchFilter:
    """Takes the batches of a log in order and returns what is kept of each."""

    def __init__(self, wanted: CleaningPass, keys: KeyOffsets) -> None:
        self.aborted: list[AbortedTransaction] = []  # whose markers stay; the caller takes them
        self._keys = keys
        self._transactions = Transactions(wanted.aborted, from_offset=wanted.from_offset)
        self._last_of_producers = wanted.last_of_producers
        self._now_ms = wanted.now_ms
        self._horizon_ms = min(wanted.now_ms + wanted.settings.delete_retention_ms, LONG_MAX)

    def pass_through(self, batch: BatchView) -> BatchView | None:
        """What is kept of a batch, if anything."""
        if batch.is_control:
            return self._control(batch)
        if self._transactions.pass_data(batch):
            return self._emptied(batch)
        return self._data(batch)

    def _control(self, batch: BatchView) -> BatchView | None:
        marker = self._transactions.pass_control(batch)
        if marker.aborted is not None:
            self.aborted.append(marker.aborted)
        if not marker.useless:
            return batch
        horizon_ms = batch.delete_horizon_ms
        if batch.record_count == 0 or (horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._emptied(batch)
        if horizon_ms is not None:
            return batch
        return self._rewritten(batch, _payload(batch), KEEP * batch.record_count, self._horizon_ms)

    def _data(self, batch: BatchView) -> BatchView | None:
        if batch.record_count == 0:
            return self._emptied(batch)
        payload = _payload(batch)
        fates = self._keys.fates(payload, batch.record_count, batch.base_offset)
        has_tombstones = TOMBSTONE in fates
        horizon_ms = batch.delete_horizon_ms
        if has_tombstones and horizon_ms is not None and horizon_ms <= self._now_ms:
            fates = fates.translate(WITHOUT_TOMBSTONES)
            has_tombstones = False
        dropped = fates.count(SUPERSEDED)
        if dropped == batch.record_count:
            return self._emptied(batch)
        if has_tombstones and horizon_ms is None:
            return self._rewritten(batch, payload, fates, self._horizon_ms)
        if dropped == 0:
            return batch
        return self._rewritten(batch, payload, fates, horizon_ms)

    def _emptied(self, batch: BatchView) -> BatchView | None:
        """The bare header, where a producer depends on it."""
        return bare(batch) if self._is_last_of_producer(batch) else None

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        last = self._last_of_producers.get(batch.producer_id)
        if last is None:
            return False  # it has been silent for too long to be remembered
        if last.last_offset is not None:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _rewritten(
        self, batch: BatchView, payload: Buffer, keep: bytes, horizon_ms: int | None
    ) -> BatchView:
        """The batch with some of its records; the delete horizon takes the base timestamp's place.

        Two copies: the records that stay, and the batch around them.
        """
        base_timestamp = batch.base_timestamp if horizon_ms is None else horizon_ms
        kept = filter_records(
            payload, batch.record_count, keep, batch.base_timestamp, base_timestamp
        )
        appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        return _sealed(
            batch,
            compress(batch.codec, kept.payload),
            attributes=batch.attributes | (0 if horizon_ms is None else DELETE_HORIZON_FLAG),
            base_timestamp=base_timestamp,
            max_timestamp=batch.max_timestamp if appended else kept.max_timestamp,
            record_count=kept.record_count,
        )


def bare(batch: BatchView) -> BatchView:
    """The batch without its records."""
    if batch.record_count == 0:
        return batch
    return _sealed(
        batch,
        b"",
        attributes=batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        record_count=0,
    )


def _payload(batch: BatchView) -> Buffer:
    return payload_of(batch, bytes_max=DECOMPRESSED_BYTES_MAX)


def _sealed(
    batch: BatchView,
    payload: Buffer,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> BatchView:
    """`batch` with other contents, in invariant 1's sense the same."""
    data = bytearray(HEADER_BYTES)
    data += payload
    HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        len(data) - OVERHEAD_BYTES,
        batch.leader_epoch,
        batch.magic,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        record_count,
    )
    UINT32.pack_into(data, CHECKSUM_POSITION, crc32c(memoryview(data)[ATTRIBUTES_POSITION:]))
    return BatchView(memoryview(data))

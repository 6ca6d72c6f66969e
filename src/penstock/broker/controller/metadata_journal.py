"""The metadata log and its snapshots as a journal: decisions in, one batch or frame each; at a
start the newest whole snapshot comes out, and the log behind it.

At each start the one voter elects itself: a leader-change batch of a new epoch goes in before
anything else, as Apache Kafka's quorum does it, and the first start of all writes the bootstrap
records behind it.

Invariants:
1. The log begins at or below the offset of the oldest snapshot that is kept, or at 0.
2. What a snapshot replaces is removed only when the snapshot is on disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.log.metadata_snapshots import DamagedSnapshot, MetadataSnapshots, SnapshotPart
from penstock.log.partition_log import PartitionLog
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed
from penstock.metadata.framing import batched
from penstock.metadata.records import (
    LogRecord,
    MetadataRecord,
    UnreadableMetadata,
    decode_record,
    encode_record,
)
from penstock.metadata.snapshot import Retention, StoredSnapshot, retained_from
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.control import ControlType, control_batch
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.wire.codec import encode
from penstock.wire.messages.control_records import LeaderChangeMessage, Voter
from penstock.wire.messages.metadata_records.transaction import AbortTransactionRecord
from penstock.world.errors import DiskError
from penstock.world.ports import Clock, Disk, File

LEADER_CHANGE_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one batch of the log says, or one whole decision."""

    records: tuple[LogRecord, ...]
    next_offset: Offset
    epoch: LeaderEpoch
    size_bytes: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a start finds: a snapshot, if there is one, and the log behind it."""

    snapshot: SnapshotId | None
    records: tuple[LogRecord, ...]  # of the snapshot
    entries: list[Entry]
    damaged: tuple[DamagedSnapshot, ...]  # newer snapshots that had to be passed over


class MetadataJournal:
    """`__cluster_metadata-0`, in the epoch that `elect` began."""

    def __init__(self, *, log: PartitionLog, disk: Disk, clock: Clock) -> None:
        self.snapshots = MetadataSnapshots(disk=disk, directory=log.directory)
        self._log = log
        self._clock = clock
        self._epoch = LeaderEpoch(0)
        self._appended: list[Entry] = []
        self._damaged: list[SnapshotId] = []

    @property
    def start_offset(self) -> Offset:
        return self._log.start_offset

    @property
    def end_offset(self) -> Offset:
        return self._log.end_offset

    def recover(self) -> Recovered:
        """The newest whole snapshot that the log reaches back to, and the log behind it.
        UnreadableMetadata when there is none, or the log is not as we wrote it.
        """
        damaged: list[DamagedSnapshot] = []
        snapshot: SnapshotId | None = None
        records: tuple[LogRecord, ...] = ()
        for candidate in reversed(self.snapshots.ids):
            if candidate.offset < self._log.start_offset:
                break
            try:
                records = self._snapshot_records(candidate)
            except DamagedSnapshot as error:
                damaged.append(error)
                self._damaged.append(candidate)
            else:
                snapshot = candidate
                break
        if snapshot is not None:
            self._follow(snapshot)
        elif self._log.start_offset > 0:
            reason = damaged[0] if damaged else f"{self._log.directory} has no snapshot"
            raise UnreadableMetadata(
                f"{reason}; the metadata log begins at offset {self._log.start_offset}, so it "
                "cannot be read without one: restore the directory from a copy"
            )
        from_offset = self._log.start_offset if snapshot is None else snapshot.offset
        return Recovered(
            snapshot=snapshot,
            records=records,
            entries=list(self.history(from_offset)),
            damaged=tuple(damaged),
        )

    def history(self, from_offset: Offset) -> Iterator[Entry]:
        """The log from an offset on, in order. UnreadableMetadata for what is not as we wrote it.

        Checksums are looked at even after a clean stop: the log is small, and what it says decides
        over everything else.
        """
        for batch in self._log.batches_from(from_offset):
            if not batch.checksum_matches():
                raise UnreadableMetadata(
                    f"{self._log.directory}: the batch at offset {batch.base_offset} does not "
                    f"match its checksum; restore the directory from a copy"
                )
            yield Entry(
                records=tuple(_records_in(batch)),
                next_offset=batch.next_offset,
                epoch=batch.leader_epoch,
                size_bytes=batch.size_bytes,
                timestamp_ms=batch.max_timestamp,
            )

    @property
    def last_epoch(self) -> LeaderEpoch:
        """That of the last record, in the log or in a snapshot; 0 when there is none."""
        latest = self._log.epochs.latest
        stored = self.snapshots.latest
        return LeaderEpoch(max(latest or 0, 0 if stored is None else stored.epoch))

    def batches_from(self, offset: Offset) -> Iterator[BatchView]:
        """The log as it lies, for a node that fetches it."""
        assert offset >= self._log.start_offset, (offset, self._log.start_offset)
        return self._log.batches_from(offset)

    def elect(self, leader: NodeId, *, epoch: LeaderEpoch) -> None:
        """Begins an epoch in which this node leads; the caller syncs."""
        assert epoch > self.last_epoch, (epoch, self.last_epoch)
        self._epoch = epoch
        message = LeaderChangeMessage(
            version=LEADER_CHANGE_VERSION,
            leader_id=leader,
            voters=[Voter(voter_id=leader)],
            granting_voters=[Voter(voter_id=leader)],
        )
        batch = control_batch(
            ControlType.LEADER_CHANGE,
            encode(message, LEADER_CHANGE_VERSION),
            timestamp_ms=self._clock.now_ms(),
            base_offset=self._log.end_offset,
            leader_epoch=self._epoch,
        )
        self._write([batch], ())

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """One decision, in the page cache; `unsynced` and `synced` make it durable."""
        batches = []
        base_offset = self._log.end_offset
        for values in batched(records):
            batches.append(self._batch(values, base_offset))
            base_offset = Offset(base_offset + len(values))
            if len(batches[-1]) > DECISION_BYTES_MAX:
                raise AppendFailed(f"{len(batches[-1])} bytes in one batch", NotDone.TOO_LARGE)
        try:
            self._write(batches, tuple(records))
        except DiskError as error:
            raise AppendFailed(str(error)) from error

    def append_fetched(self, batches: Sequence[BatchView]) -> None:
        """Batches that another leader numbered. CorruptBatch when one of them does not follow the
        log or is damaged; then none is appended. DiskError likewise.
        """
        next_offset, epoch = self._log.end_offset, self.last_epoch
        for batch in batches:
            if batch.base_offset != next_offset or batch.leader_epoch < epoch:
                raise CorruptBatch(
                    f"a batch at offset {batch.base_offset} of epoch {batch.leader_epoch} behind "
                    f"offset {next_offset} of epoch {epoch}"
                )
            if not batch.checksum_matches():
                raise CorruptBatch(f"the batch at offset {batch.base_offset} has a wrong checksum")
            next_offset, epoch = batch.next_offset, batch.leader_epoch
        self._log.append(batches, now_ms=self._clock.now_ms())

    def abort_frame(self) -> None:
        """Ends a frame that a crash left open: nothing of it takes effect. The caller syncs."""
        record = AbortTransactionRecord(reason="the controller stopped before it was complete")
        self._write([self._batch([encode_record(record)], self._log.end_offset)], (record,))

    def unsynced(self) -> list[File]:
        return self._log.unsynced_files()

    def synced(self, end_offset: Offset) -> list[Entry]:
        """Notes that all up to `end_offset` is durable; returns what thereby became visible."""
        self._log.mark_synced(end_offset)
        visible = [entry for entry in self._appended if entry.next_offset <= end_offset]
        self._appended = self._appended[len(visible) :]
        return visible

    def sync(self) -> list[Entry]:
        """The same at once, on this thread: for a start."""
        self._log.sync()
        return self.synced(self._log.end_offset)

    # Snapshots

    def begin_snapshot(self, snapshot_id: SnapshotId) -> SnapshotPart:
        """A part to be written. The log begins a new segment, so that whole ones can be removed
        once the snapshot is published.
        """
        self._log.roll()
        return self.snapshots.begin(snapshot_id)

    def trim(self, retention: Retention, *, now_ms: int) -> None:
        """Removes what the snapshots make superfluous: older ones, and the log below them.

        DiskError: something was not removed; the next call tries again.
        """
        for snapshot_id in self._damaged:
            if snapshot_id != self.snapshots.latest:
                self.snapshots.remove(snapshot_id)
        self._damaged = [one for one in self._damaged if one == self.snapshots.latest]
        ids = self.snapshots.ids
        if not ids or self._damaged:
            return
        stored = [
            StoredSnapshot(
                offset=one.offset,
                size_bytes=self.snapshots.size_bytes(one),
                timestamp_ms=self._timestamp_ms(one, now_ms),
            )
            for one in ids
        ]
        first = retained_from(stored, retention, log_bytes=self._log.size_bytes, now_ms=now_ms)
        if first > 0:
            # First the log: a snapshot that it does not reach back to is of no use, and harmless.
            self._log.advance_start(max(self._log.start_offset, ids[first].offset))
        for superfluous in ids[:first]:
            self.snapshots.remove(superfluous)

    def truncate_to(self, offset: Offset) -> None:
        """Cuts off what another leader's log contradicts; nothing that was committed."""
        latest = self.snapshots.latest
        assert latest is None or offset >= latest.offset, (offset, latest)
        self._log.truncate_to(offset)

    def install(self, part: SnapshotPart) -> None:
        """A snapshot that was received whole takes the place of the log. DamagedSnapshot: it is not
        whole, and nothing has changed.
        """
        self.snapshots.check(part)
        part.file.sync()
        self.snapshots.publish(part)
        self._follow(part.snapshot_id)

    def _follow(self, snapshot: SnapshotId) -> None:
        """A log that ends before the snapshot, or in an older epoch, begins anew behind it."""
        latest = self._log.epochs.latest
        older = latest is not None and latest < snapshot.epoch
        if older or self._log.end_offset < snapshot.offset:
            self._log.truncate_fully_and_start_at(snapshot.offset)
            latest = None
        if latest is None and self._log.end_offset == snapshot.offset:
            self._log.epochs.assign(snapshot.epoch, snapshot.offset)

    def _snapshot_records(self, snapshot_id: SnapshotId) -> tuple[LogRecord, ...]:
        batches = self.snapshots.batches(snapshot_id)
        try:
            return tuple(record for batch in batches for record in _records_in(batch))
        except (UnreadableMetadata, CorruptBatch) as error:
            raise DamagedSnapshot(self.snapshots.path(snapshot_id), str(error)) from error

    def _timestamp_ms(self, snapshot_id: SnapshotId, now_ms: int) -> int:
        try:
            return self.snapshots.timestamp_ms(snapshot_id)
        except DamagedSnapshot:
            return now_ms  # nothing is removed because of it

    def _batch(self, values: Sequence[bytes], base_offset: Offset) -> bytearray:
        now_ms = self._clock.now_ms()
        return build_batch(
            [Record(None, value, timestamp_ms=now_ms) for value in values],
            base_offset=base_offset,
            leader_epoch=self._epoch,
        )

    def _write(self, batches: Sequence[bytearray], records: tuple[LogRecord, ...]) -> None:
        views = [BatchView(memoryview(batch)) for batch in batches]
        now_ms = self._clock.now_ms()
        self._log.append(views, now_ms=now_ms)
        self._appended.append(
            Entry(
                records=records,
                next_offset=self._log.end_offset,
                epoch=self._epoch,
                size_bytes=sum(view.size_bytes for view in views),
                timestamp_ms=now_ms,
            )
        )


def _records_in(batch: BatchView) -> Iterator[LogRecord]:
    for record in () if batch.is_control else records_of(batch):
        yield decode_record(bytes(record.value or b""))

"""The metadata log and its snapshots as a journal: decisions in, one batch or frame each; at a
start the newest whole snapshot comes out, and the log behind it.

It is also what the quorum knows of the disk (`quorum_driver`): the ends of the log with
their epochs, the vote in `quorum-state`, and batches and snapshots of other replicas. An epoch
begins with a leader-change batch, as in Apache Kafka.

Invariants:
1. The log begins at or below the offset of the oldest snapshot that is kept, or at 0.
2. What a snapshot replaces is removed only when the snapshot is on disk.
"""

import logging
from collections.abc import Iterator, Sequence

from penstock.log.metadata_snapshots import (
    DamagedSnapshot,
    MetadataSnapshots,
    SnapshotPart,
    quorum_records,
)
from penstock.log.partition_log import PartitionLog
from penstock.log.quorum_state import QuorumState, read_quorum_state, write_quorum_state
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
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.effects import HardState
from penstock.raft.log_ends import LogEnds
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.raft.wire_form.voters import version_record, voters_in, voters_of, voters_record
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.control import ControlType, control_record
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.wire.codec import encode
from penstock.wire.messages.control_records import LeaderChangeMessage, Voter
from penstock.wire.messages.metadata_records.transaction import AbortTransactionRecord
from penstock.world.errors import DiskError
from penstock.world.ports import Buffer, Clock, Disk, File

logger = logging.getLogger(__name__)

LEADER_CHANGE_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one batch of the log says."""

    records: tuple[LogRecord, ...]
    next_offset: Offset
    epoch: LeaderEpoch
    size_bytes: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a start finds: a snapshot, if there is one. The log behind it is the tail."""

    snapshot: SnapshotId | None
    records: tuple[LogRecord, ...]  # of the snapshot
    damaged: tuple[DamagedSnapshot, ...]  # newer snapshots that had to be passed over


class MetadataJournal:
    """`__cluster_metadata-0`; this node appends in the epoch of its latest leader change."""

    def __init__(
        self,
        *,
        log: PartitionLog,
        disk: Disk,
        clock: Clock,
        node_id: NodeId,
        voters: VoterSet,
    ) -> None:
        """`voters` are those of the settings, or of formatting; see `stored_voters`."""
        self.snapshots = MetadataSnapshots(disk=disk, directory=log.directory)
        self._log = log
        self._disk = disk
        self._clock = clock
        self._node_id = node_id
        self.voters = voters  # those in force; the quorum's driver keeps them up to date
        self._epoch = LeaderEpoch(0)
        self._tail: list[Entry] = []
        self._visible = 0  # entries of the tail that are committed
        self._damaged: list[SnapshotId] = []
        self._received: SnapshotPart | None = None
        self.received_voters: VoterSet | None = None  # of the last snapshot that came whole

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
                records = self.snapshot_records(candidate)
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
        self._tail, self._visible = list(self.history(from_offset)), 0
        return Recovered(snapshot=snapshot, records=records, damaged=tuple(damaged))

    @property
    def tail(self) -> Sequence[Entry]:
        """What is not in an image yet, in order: uncommitted entries, and those of a frame of which
        a part is committed.
        """
        return tuple(self._tail)

    def committed(self, offset: Offset) -> list[Entry]:
        """Everything below `offset` is kept for good; returns what thereby became visible."""
        first = self._visible
        while self._visible < len(self._tail) and self._tail[self._visible].next_offset <= offset:
            self._visible += 1
        return self._tail[first : self._visible]

    def in_image(self, offset: Offset) -> None:
        """An image shows everything below `offset`."""
        count = 0
        while count < self._visible and self._tail[count].next_offset <= offset:
            count += 1
        del self._tail[:count]
        self._visible -= count

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
            yield _entry_of(batch)

    @property
    def last_epoch(self) -> LeaderEpoch:
        """That of the last record, in the log or in a snapshot; 0 when there is none."""
        latest = self._log.epochs.latest
        stored = self.snapshots.latest
        return LeaderEpoch(max(latest or 0, 0 if stored is None else stored.epoch))

    def append_leader_change(
        self,
        epoch: LeaderEpoch,
        granting: Sequence[NodeId],
        voters: VoterSet,
        *,
        named: bool = False,
    ) -> None:
        """Begins an epoch in which this node leads; `named`: the log is to name the voters."""
        assert epoch > self.last_epoch, (epoch, self.last_epoch)
        self._epoch = epoch
        message = LeaderChangeMessage(
            version=LEADER_CHANGE_VERSION,
            leader_id=self._node_id,
            voters=[Voter(voter_id=voter) for voter in voters.node_ids],
            granting_voters=[Voter(voter_id=voter) for voter in granting],
        )
        now_ms = self._clock.now_ms()
        value = encode(message, LEADER_CHANGE_VERSION)
        records = [control_record(ControlType.LEADER_CHANGE, value, timestamp_ms=now_ms)]
        if named:
            records.append(version_record(timestamp_ms=now_ms))
            records.append(voters_record(voters, timestamp_ms=now_ms))
        self._write_control(records)

    def append_voters(self, voters: VoterSet, *, upgrades: bool) -> None:
        """Another set of voters; `upgrades`: the first one of kraft.version 1."""
        now_ms = self._clock.now_ms()
        records = [version_record(timestamp_ms=now_ms)] if upgrades else []
        self._write_control([*records, voters_record(voters, timestamp_ms=now_ms)])

    def _write_control(self, records: Sequence[Record]) -> None:
        batch = build_batch(
            records, base_offset=self._log.end_offset, leader_epoch=self._epoch, control=True
        )
        self._write([batch], ())

    def stored_voters(self) -> list[VotersAt]:
        """The sets that the newest snapshot and the log behind it name, in order. What formatting
        wrote is not among them.
        """
        found: list[VotersAt] = []
        latest = self.latest_snapshot
        from_offset = self._log.start_offset
        if latest is not None and latest.offset > 0:
            from_offset = latest.offset
            voters = self.snapshot_voters(latest)
            if voters is not None:
                found.append(VotersAt(offset=Offset(latest.offset - 1), voters=voters))
        found.extend(
            one
            for one in voters_in(self._log.batches_from(from_offset))
            if one.offset >= from_offset
        )
        return found

    def snapshot_voters(self, snapshot: SnapshotId) -> VoterSet | None:
        """The voters that a snapshot names; None if it names none."""
        return self._voters_at(self.snapshots.path(snapshot))

    def _voters_at(self, path: str) -> VoterSet | None:
        for record in quorum_records(self._disk, path):
            voters = voters_of(record)
            if voters is not None:
                return voters
        return None

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """One decision, in the page cache; the quorum makes it durable and commits it."""
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
        self._tail.extend(_entry_of(batch) for batch in batches)

    def abort_frame(self) -> None:
        """Ends a frame that a crash left open: nothing of it takes effect. The caller syncs."""
        record = AbortTransactionRecord(reason="the controller stopped before it was complete")
        self._write([self._batch([encode_record(record)], self._log.end_offset)], (record,))

    def unsynced(self) -> list[File]:
        return self._log.unsynced_files()

    def synced(self, end_offset: Offset) -> None:
        """Everything up to `end_offset` is durable, by a sync of what `unsynced` returned."""
        self._log.mark_synced(end_offset)

    def sync(self) -> None:
        """The sync itself, at once, on this thread: for a start."""
        for file in self.unsynced():
            file.sync()

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest one that is not known to be damaged."""
        usable = [one for one in self.snapshots.ids if one not in self._damaged]
        return usable[-1] if usable else None

    # For the quorum

    def ends(self) -> LogEnds:
        """The log as a start finds it, for `raft`."""
        log, ends = self._log, LogEnds()
        latest = self.latest_snapshot
        if log.start_offset > 0:
            [first] = [one for one in self.snapshots.ids if one.offset == log.start_offset] or [
                SnapshotId(log.start_offset, log.epochs.entries[0].epoch)
            ]
            ends.install(first)
            ends.snapshot = latest
        elif latest is not None:
            ends.snapshot = latest
        starts = log.epochs.entries
        for at, begun in enumerate(starts):
            end = starts[at + 1].start_offset if at + 1 < len(starts) else log.end_offset
            if end > ends.end_offset:
                ends.append(begun.epoch, end)
        return ends

    def hard_state(self) -> HardState:
        """UnreadableQuorumState when the file is torn."""
        stored = read_quorum_state(self._disk, self._log.directory)
        if stored is None or stored.leader_epoch < self.last_epoch:
            if len(self.voters.keys) > 1 and self.last_epoch > 0:
                raise UnreadableMetadata(
                    f"{self._log.directory} has a log of epoch {self.last_epoch} and no "
                    "quorum-state that goes with it: the node may have voted, and has forgotten "
                    "it. Replace the directory as that of a lost disk"
                )
            # A log without the file is that of a single voter of an older version: it never voted.
            return HardState(epoch=self.last_epoch, leader_id=None, voted=None)
        voted = None if stored.voted is None else ReplicaKey(*stored.voted)
        return HardState(epoch=stored.leader_epoch, leader_id=stored.leader_id, voted=voted)

    def persist(self, state: HardState) -> None:
        """Durable when it returns."""
        write_quorum_state(
            self._disk,
            self._log.directory,
            QuorumState(
                leader_epoch=state.epoch,
                leader_id=state.leader_id,
                voted=state.voted,
                static_voters=self.voters.node_ids if self.voters.is_fixed else None,
            ),
        )

    def read(self, from_offset: Offset, *, bytes_max: int) -> bytes:
        """Whole batches from an offset on: at least one, if there is any."""
        parts: list[bytes] = []
        size = 0
        for batch in self._log.batches_from(from_offset):
            if parts and size + batch.size_bytes > bytes_max:
                break
            parts.append(bytes(batch.view))
            size += batch.size_bytes
        return b"".join(parts)

    def truncate(self, offset: Offset) -> None:
        """Cuts off what another leader's log contradicts; nothing that was committed."""
        latest = self.snapshots.latest
        assert latest is None or offset >= latest.offset, (offset, latest)
        self._log.truncate_to(offset)
        assert self._log.end_offset == offset, "replicas have the same batches"
        self._tail = [one for one in self._tail if one.next_offset <= offset]
        assert self._visible <= len(self._tail), "nothing that is committed is cut off"

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        known = snapshot in self.snapshots.ids and snapshot not in self._damaged
        return self.snapshots.size_bytes(snapshot) if known else None

    def read_snapshot(self, snapshot: SnapshotId, *, position: int, bytes_max: int) -> bytes:
        return self.snapshots.read_chunk(snapshot, position=position, count=bytes_max)

    def store_snapshot_part(self, snapshot: SnapshotId, *, position: int, data: Buffer) -> None:
        part = self._received
        if part is None or part.snapshot_id != snapshot or position == 0:
            self._drop_received()
            part = self._received = self.snapshots.begin(snapshot)
        assert part.size_bytes == position, (part.size_bytes, position)
        part.append([data])

    def completes_snapshot(self, snapshot: SnapshotId, *, position: int, data: Buffer) -> bool:
        """Whether these last bytes make a whole snapshot of what was stored. If not, it is dropped:
        a byte was damaged on the way, or where it came from.
        """
        self.store_snapshot_part(snapshot, position=position, data=data)
        part = self._received
        assert part is not None
        try:
            self.snapshots.check(part)
        except DamagedSnapshot as error:
            logger.warning("metadata snapshot received=%s damaged=true reason=%s", snapshot, error)
            self._drop_received()
            return False
        self.received_voters = self._voters_at(part.file.path)
        part.file.truncate(position)
        return True

    def _drop_received(self) -> None:
        part, self._received = self._received, None
        if part is not None:
            self.snapshots.drop(part)

    def install_snapshot(self, snapshot: SnapshotId) -> None:
        """The parts are whole (`completes_snapshot`): they take the place of the log, durably."""
        part, self._received = self._received, None
        assert part is not None and part.snapshot_id == snapshot, (part, snapshot)
        self.install(part)
        self._tail, self._visible = [], 0

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

    def snapshot_records(self, snapshot_id: SnapshotId) -> tuple[LogRecord, ...]:
        """What a snapshot says. DamagedSnapshot when it is not whole."""
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
        """One entry a batch, since the quorum commits and truncates by batches."""
        views = [BatchView(memoryview(batch)) for batch in batches]
        self._log.append(views, now_ms=self._clock.now_ms())
        if len(views) == 1:
            self._tail.append(_entry_of(views[0], records))
        else:
            self._tail.extend(_entry_of(view) for view in views)


def _entry_of(batch: BatchView, records: tuple[LogRecord, ...] | None = None) -> Entry:
    """The entry of a batch, whose records may be known already."""
    return Entry(
        records=tuple(_records_in(batch)) if records is None else records,
        next_offset=batch.next_offset,
        epoch=batch.leader_epoch,
        size_bytes=batch.size_bytes,
        timestamp_ms=batch.max_timestamp,
    )


def _records_in(batch: BatchView) -> Iterator[LogRecord]:
    for record in () if batch.is_control else records_of(batch):
        yield decode_record(bytes(record.value or b""))

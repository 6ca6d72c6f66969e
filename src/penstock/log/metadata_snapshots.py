"""Snapshots of the metadata log, in Apache Kafka's form, beside the segments of the log.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint        whole, and never changed again
    <end offset>-<epoch>.checkpoint.part                         being written or received

    control batch   SnapshotHeader (and what the quorum adds: KRaftVersion, Voters)
    data batches    the records of the image, numbered from the header on
    control batch   SnapshotFooter

Invariants:
1. A file without `.part` is whole and on disk: it is synced before it gets its name.
2. A name is on disk before anything that the snapshot replaces is removed (`publish`).
3. A damaged file is found when it is read: every checksum is checked, and the footer comes last.

What a snapshot says is not known here; it is batches in and batches out.
"""

import re
from collections.abc import Iterator, Sequence

from penstock.log.errors import CorruptData
from penstock.log.scan import whole_batches
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.control import ControlType, control_record, control_type
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.wire.codec import decode_exact, encode
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from penstock.world.ports import Buffer, Disk, File

SNAPSHOT_VERSION = 0  # of header and footer
WHOLE = ".checkpoint"
PART = ".checkpoint.part"
DELETED = ".checkpoint.deleted"  # as Apache Kafka renames those on their way out
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class DamagedSnapshot(CorruptData):
    """A snapshot that is not whole, or not as it was written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SnapshotPart:
    """A snapshot on its way, written here or received in chunks; it counts once published."""

    def __init__(self, snapshot_id: SnapshotId, file: File) -> None:
        self.snapshot_id = snapshot_id
        self.file = file

    @property
    def size_bytes(self) -> int:
        """Where the next chunk begins."""
        return self.file.size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """DiskError: the part is as it was."""
        self.file.append(buffers)


class SnapshotWriter:
    """Writes the batches of one snapshot: header, `append` as often as needed, `finish`."""

    def __init__(
        self, part: SnapshotPart, *, timestamp_ms: int, quorum: Sequence[Record] = ()
    ) -> None:
        """`timestamp_ms` is that of the last record in the snapshot; `quorum` are control records
        of the quorum itself.
        """
        self.part = part
        self._timestamp_ms = timestamp_ms
        self._next_offset = Offset(0)
        header = SnapshotHeaderRecord(
            version=SNAPSHOT_VERSION, last_contained_log_timestamp=timestamp_ms
        )
        value = encode(header, SNAPSHOT_VERSION)
        self._write([self._control(ControlType.SNAPSHOT_HEADER, value), *quorum], control=True)

    def append(self, values: Sequence[bytes]) -> None:
        """One batch with these records."""
        records = [Record(None, value, timestamp_ms=self._timestamp_ms) for value in values]
        self._write(records, control=False)

    def finish(self) -> None:
        """The caller syncs the part's file afterwards, and publishes it."""
        value = encode(SnapshotFooterRecord(version=SNAPSHOT_VERSION), SNAPSHOT_VERSION)
        self._write([self._control(ControlType.SNAPSHOT_FOOTER, value)], control=True)

    def _control(self, kind: ControlType, value: bytes) -> Record:
        return control_record(kind, value, timestamp_ms=self._timestamp_ms)

    def _write(self, records: Sequence[Record], *, control: bool) -> None:
        batch = build_batch(
            records,
            base_offset=self._next_offset,
            leader_epoch=self.part.snapshot_id.epoch,
            control=control,
        )
        self.part.append([batch])
        self._next_offset = Offset(self._next_offset + len(records))


class MetadataSnapshots:
    """The snapshots in the directory of the metadata log; see the module's invariants."""

    def __init__(self, *, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._ids = published(disk, directory)
        for name in disk.names(directory):
            if name.endswith((PART, DELETED)):
                disk.remove(f"{directory}/{name}")

    # Queries

    @property
    def ids(self) -> Sequence[SnapshotId]:
        """The published ones, oldest first."""
        return tuple(self._ids)

    @property
    def latest(self) -> SnapshotId | None:
        return self._ids[-1] if self._ids else None

    def path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id}{WHOLE}"

    def size_bytes(self, snapshot_id: SnapshotId) -> int:
        return self._disk.size(self.path(snapshot_id))

    def read_chunk(self, snapshot_id: SnapshotId, *, position: int, count: int) -> bytes:
        """Bytes of a published snapshot, for a node that fetches it."""
        file = self._disk.open(self.path(snapshot_id), writable=False)
        try:
            return file.read_at(position, count)
        finally:
            file.close()

    def batches(self, snapshot_id: SnapshotId) -> list[BatchView]:
        """All batches between header and footer. DamagedSnapshot unless the snapshot is whole."""
        return snapshot_batches(self._disk, self.path(snapshot_id))

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int:
        """That of the last record in the snapshot. DamagedSnapshot when the header is not there."""
        path = self.path(snapshot_id)
        file = self._disk.open(path, writable=False)
        try:
            for _, batch in whole_batches(file, start=0, end=file.size):
                return _header_of(batch, path).last_contained_log_timestamp
            raise DamagedSnapshot(path, "the file is empty")
        except CorruptBatch as error:
            raise DamagedSnapshot(path, str(error)) from error
        finally:
            file.close()

    # Commands

    def begin(self, snapshot_id: SnapshotId) -> SnapshotPart:
        """A new part, empty; one that was begun before under this name is dropped."""
        path = self._part_path(snapshot_id)
        self._disk.remove(path)
        return SnapshotPart(snapshot_id, self._disk.open(path, create=True))

    def check(self, part: SnapshotPart) -> None:
        """DamagedSnapshot when a part that was received is not a whole snapshot."""
        _checked(part.file, part.file.path)

    def publish(self, part: SnapshotPart) -> None:
        """The part is whole and its file is synced: it becomes a snapshot, for good."""
        part.file.close()
        snapshot_id = part.snapshot_id
        self._disk.rename(self._part_path(snapshot_id), self.path(snapshot_id))
        self._disk.sync_directory(self._directory)
        if snapshot_id not in self._ids:
            self._ids.append(snapshot_id)
            self._ids.sort()

    def drop(self, part: SnapshotPart) -> None:
        """Gives up a part."""
        part.file.close()
        self._disk.remove(self._part_path(part.snapshot_id))

    def remove(self, snapshot_id: SnapshotId) -> None:
        """Removes a published snapshot; the log must begin above it, or another one serve."""
        self._disk.remove(self.path(snapshot_id))
        self._ids.remove(snapshot_id)

    def _part_path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id}{PART}"


def published(disk: Disk, directory: str) -> list[SnapshotId]:
    """The snapshots of a directory, oldest first. Nothing is changed."""
    matches = (_NAME.fullmatch(name) for name in disk.names(directory))
    return sorted(
        SnapshotId(Offset(int(match[1])), LeaderEpoch(int(match[2])))
        for match in matches
        if match is not None
    )


def quorum_records(disk: Disk, path: str) -> list[Record]:
    """What the quorum has added to the header of a snapshot. DamagedSnapshot when that is not as it
    was written; the rest of the file is not looked at.
    """
    file = disk.open(path, writable=False)
    try:
        for _, batch in whole_batches(file, start=0, end=file.size):
            if not batch.checksum_matches():
                raise DamagedSnapshot(path, "the header has a wrong checksum")
            _header_of(batch, path)
            return list(records_of(batch))[1:]
        raise DamagedSnapshot(path, "the file is empty")
    except CorruptBatch as error:
        raise DamagedSnapshot(path, str(error)) from error
    finally:
        file.close()


def snapshot_batches(disk: Disk, path: str) -> list[BatchView]:
    """All batches between header and footer of a file. DamagedSnapshot unless it is whole."""
    file = disk.open(path, writable=False)
    try:
        return _checked(file, path)
    finally:
        file.close()


def _checked(file: File, path: str) -> list[BatchView]:
    batches: list[BatchView] = []
    next_offset = Offset(0)
    try:
        for position, batch in whole_batches(file, start=0, end=file.size):
            if not batch.checksum_matches():
                raise DamagedSnapshot(path, f"the batch at byte {position} has a wrong checksum")
            if batch.base_offset != next_offset:
                raise DamagedSnapshot(path, f"the batch at byte {position} is out of order")
            next_offset = batch.next_offset
            batches.append(batch)
        if not batches:
            raise DamagedSnapshot(path, "the file is empty")
        _header_of(batches[0], path)
        if len(batches) < 2 or ControlType.SNAPSHOT_FOOTER not in _control_types(batches[-1]):
            raise DamagedSnapshot(path, "the file ends without a footer")
    except CorruptBatch as error:
        raise DamagedSnapshot(path, str(error)) from error
    return batches[1:-1]


def _header_of(batch: BatchView, path: str) -> SnapshotHeaderRecord:
    for record in records_of(batch) if batch.is_control else ():
        if control_type(record) is ControlType.SNAPSHOT_HEADER:
            try:
                value = memoryview(bytes(record.value or b""))
                return decode_exact(SnapshotHeaderRecord, SNAPSHOT_VERSION, value)
            except MalformedMessage as error:
                raise DamagedSnapshot(path, f"the header is unreadable: {error}") from error
    raise DamagedSnapshot(path, "the file begins without a header")


def _control_types(batch: BatchView) -> Iterator[ControlType | None]:
    return (control_type(record) for record in records_of(batch) if batch.is_control)

"""The offset checkpoints of a data directory: recovery point, start offset, compacted offset and
high watermark of each log.

Each file is replaced as a whole, so one partition costs the same as all: callers that change many
save once.

Invariants:
 1. Entries of partitions that have not been opened are kept.
 2. A partition without a directory has no entry in memory; its entry on disk is removed before a
    directory of that name is made again, else a new topic would begin with the offsets of an old
    one.
 3. The high watermark on disk is never above one that was true of the records that the log holds:
    it is lowered, durably, before records below it are removed. A higher one need not be durable:
    if a power loss brings back the one before, or nothing, the replica learns it from the others.
"""

from collections.abc import Mapping
from typing import Protocol

from penstock.log import layout
from penstock.log.checkpoint import decode_offsets, encode_offsets
from penstock.log.errors import CorruptCheckpoint
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.records.layout import FIRST_OFFSET
from penstock.world.ports import Disk


class Checkpointed(Protocol):
    """What an open log must provide."""

    @property
    def recovery_point(self) -> Offset: ...

    @property
    def start_offset(self) -> Offset: ...

    @property
    def cleaned_offset(self) -> Offset | None: ...

    @property
    def noted_watermark(self) -> Offset | None: ...


class OffsetCheckpoints:
    """See the module's invariants. `readable`: recovery points and start offsets could be read."""

    def __init__(
        self, *, disk: Disk, path: str, logs: Mapping[TopicPartition, Checkpointed]
    ) -> None:
        self.readable = True
        self._disk = disk
        self._path = path
        self._logs = logs
        self._recovery_points = self._read(layout.RECOVERY_POINTS)
        self._start_offsets = self._read(layout.START_OFFSETS)
        self._cleaned_offsets = self._read(layout.CLEANED_OFFSETS)
        self._cleaned_on_disk = dict(self._cleaned_offsets)
        self._watermarks = self._read(layout.WATERMARKS)
        self._watermarks_on_disk = dict(self._watermarks)
        self._watermarks_synced = True
        self._on_disk = self.partitions()

    def recovery_point(self, partition: TopicPartition) -> Offset:
        return self._recovery_points.get(partition, FIRST_OFFSET)

    def start_offset(self, partition: TopicPartition) -> Offset:
        return self._start_offsets.get(partition, FIRST_OFFSET)

    def cleaned_offset(self, partition: TopicPartition) -> Offset | None:
        return self._cleaned_offsets.get(partition)

    def watermark(self, partition: TopicPartition) -> Offset | None:
        return self._watermarks.get(partition)

    def partitions(self) -> set[TopicPartition]:
        return (
            self._recovery_points.keys()
            | self._start_offsets.keys()
            | self._cleaned_offsets.keys()
            | self._watermarks.keys()
        )

    def forget(self, partition: TopicPartition) -> None:
        """The partition has no directory any more; see invariant 2 for its entry on disk."""
        self._recovery_points.pop(partition, None)
        self._start_offsets.pop(partition, None)
        self._cleaned_offsets.pop(partition, None)
        self._watermarks.pop(partition, None)

    def clear_way(self, partitions: set[TopicPartition]) -> None:
        """Call it before directories of these names are made: removes their entries on disk."""
        for partition in partitions:
            self.forget(partition)
        if not partitions.isdisjoint(self._on_disk):
            self.save()

    def save(self) -> None:
        self.save_recovery_points()
        self.save_start_offsets()
        self.save_cleaned_offsets()
        self.save_watermarks()
        self._on_disk = self.partitions()

    def save_recovery_points(self) -> None:
        for partition, log in self._logs.items():
            self._recovery_points[partition] = log.recovery_point
        self._write(layout.RECOVERY_POINTS, self._recovery_points)

    def save_start_offsets(self) -> None:
        for partition, log in self._logs.items():
            self._start_offsets[partition] = log.start_offset
        self._write(layout.START_OFFSETS, self._start_offsets)

    def save_cleaned_offsets(self) -> None:
        """Writes the file if something has changed: few logs are compacted, and seldom."""
        for partition, log in self._logs.items():
            if log.cleaned_offset is not None:
                self._cleaned_offsets[partition] = log.cleaned_offset
        if self._cleaned_offsets != self._cleaned_on_disk:
            self._write(layout.CLEANED_OFFSETS, self._cleaned_offsets)
            self._cleaned_on_disk = dict(self._cleaned_offsets)

    def save_watermarks(self) -> None:
        """The same: a partition without followers has none, and an idle one does not move it."""
        if self._watermarks_have_changed() or not self._watermarks_synced:
            self._write(layout.WATERMARKS, self._watermarks)
            self._watermarks_on_disk = dict(self._watermarks)
            self._watermarks_synced = True

    def raise_watermarks(self) -> None:
        """The same without a sync, for watermarks that have only grown: it is done often."""
        if self._watermarks_have_changed():
            self._write_unsynced(layout.WATERMARKS, self._watermarks)
            self._watermarks_on_disk = dict(self._watermarks)
            self._watermarks_synced = False

    def _watermarks_have_changed(self) -> bool:
        for partition, log in self._logs.items():
            if log.noted_watermark is not None:
                self._watermarks[partition] = log.noted_watermark
        return self._watermarks != self._watermarks_on_disk

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        path = f"{self._path}/{name}"
        if not self._disk.exists(path):
            return {}
        try:
            return decode_offsets(path, self._disk.read(path))
        except CorruptCheckpoint:
            # Without a recovery point everything is scanned, and without a start a log begins
            # with its first segment; what is not known to be compacted is, again: slow and safe.
            # Without a high watermark a replica learns it from the others.
            needed = name in (layout.RECOVERY_POINTS, layout.START_OFFSETS)
            self.readable = self.readable and not needed
            return {}

    def _write(self, name: str, offsets: dict[TopicPartition, Offset]) -> None:
        self._on_disk = self._on_disk | offsets.keys()
        self._disk.write_whole(f"{self._path}/{name}", encode_offsets(offsets))

    def _write_unsynced(self, name: str, offsets: dict[TopicPartition, Offset]) -> None:
        self._on_disk = self._on_disk | offsets.keys()
        path = f"{self._path}/{name}"
        file = self._disk.open(path + layout.TEMPORARY, create=True)
        try:
            file.truncate(0)
            file.append([encode_offsets(offsets)])
        finally:
            file.close()
        self._disk.rename(path + layout.TEMPORARY, path)

"""One data directory of a node: whose it is, which partitions it holds, and how it was left.

A clean stop leaves a marker behind; the next start takes it away before anything is written, so
that it can speak only for the stop that left it. The two checkpoints are replaced whole. A
partition is deleted by renaming its directory first: a start that finds one of those finishes the
job.

Invariants:
 1. One node at a time: the lock is held from `open` to `close`.
 2. The marker is on disk only while nobody runs, and only when every log was closed.
 3. What the checkpoints say of a partition that has not been opened yet is kept.
"""

import json
from dataclasses import replace

from penstock.log import layout
from penstock.log.checkpoint import (
    DirectoryIdentity,
    decode_identity,
    decode_offsets,
    encode_identity,
    encode_offsets,
)
from penstock.log.creation import free_name, topic_id_of
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.partition_log import PRODUCER_EXPIRY_MS, PartitionLog
from penstock.log.recovery import RecoveryReport
from penstock.log.trouble import CorruptCheckpoint
from penstock.model.identity import NO_TOPIC_ID, TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.layout import FIRST_OFFSET
from penstock.world.ports import Disk, File

NO_BROKER_EPOCH = -1


class LogDirectory:
    """A directory of partition logs; see the module's invariants."""

    def __init__(
        self, *, disk: Disk, path: str, lock: File, clean: bool, producer_expiry_ms: int
    ) -> None:
        self.path = path
        self.clean = clean  # whether the last one to use it stopped cleanly
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.recovery = RecoveryReport(clean=clean)  # summed up over the logs opened so far
        self._disk = disk
        self._lock = lock
        self._loaded = LoadedIndexes()
        self._producer_expiry_ms = producer_expiry_ms
        self._recovery_points = self._read_offsets(layout.RECOVERY_POINTS)
        self._start_offsets = self._read_offsets(layout.START_OFFSETS)

    @classmethod
    def open(
        cls, *, disk: Disk, path: str, producer_expiry_ms: int = PRODUCER_EXPIRY_MS
    ) -> "LogDirectory":
        """Takes the directory, which is made if need be; DiskError when another node has it."""
        path = path.rstrip("/") or "/"
        disk.make_directory(path)
        lock = disk.lock(f"{path}/{layout.LOCK}")
        marker = f"{path}/{layout.CLEAN_SHUTDOWN}"
        clean = disk.exists(marker)
        directory = cls(
            disk=disk, path=path, lock=lock, clean=clean, producer_expiry_ms=producer_expiry_ms
        )
        if clean:
            disk.remove(marker)
            disk.sync_directory(path)
        directory._finish_deletions()
        return directory

    # Queries

    @property
    def identity(self) -> DirectoryIdentity | None:
        """Whose directory it is; None when it has not been formatted."""
        return read_identity(self._disk, self.path)

    def partitions_found(self) -> dict[TopicPartition, TopicId | None]:
        """The partitions that have a directory here, opened or not, and whose they are."""
        found: dict[TopicPartition, TopicId | None] = {}
        for name in self._disk.names(self.path):
            partition = layout.parse_partition_directory(name)
            if partition is not None and self._disk.is_directory(f"{self.path}/{name}"):
                found[partition] = topic_id_of(self._disk, f"{self.path}/{name}")
        return found

    # Commands

    def open_log(
        self, partition: TopicPartition, topic_id: TopicId, settings: TopicSettings, *, now_ms: int
    ) -> PartitionLog:
        """The partition's log, loaded or made; TopicIdMismatch if another topic's stands there."""
        assert partition not in self.logs, partition
        log = PartitionLog.open(
            disk=self._disk,
            directory=f"{self.path}/{layout.partition_directory(partition)}",
            partition=partition,
            topic_id=topic_id,
            settings=settings,
            now_ms=now_ms,
            recovery_point=self._recovery_points.get(partition, FIRST_OFFSET),
            clean=self.clean,
            start_offset=self._start_offsets.get(partition, FIRST_OFFSET),
            producer_expiry_ms=self._producer_expiry_ms,
            loaded=self._loaded,
            save_checkpoints=self.save_checkpoints,
        )
        self.logs[partition] = log
        self._add_up(log.recovery)
        if log.recovery_point < self._recovery_points.get(partition, FIRST_OFFSET):
            # Recovery has cut below it: what is written there now is not synced.
            self.save_checkpoints()
        return log

    def delete(self, log: PartitionLog) -> None:
        """Deletes a log: it is gone for good once its directory has another name."""
        assert self.logs.get(log.partition) is log, log.partition
        del self.logs[log.partition]
        path = log.delete()
        self._forget(log.partition)
        self._disk.remove_tree(path)

    def set_aside_stray(self, partition: TopicPartition) -> str:
        """Renames the directory of a partition that the metadata does not know; its new path.

        It is kept, and no start looks at it: metadata that was lost must not cost data as well.
        """
        assert partition not in self.logs, partition
        directory = f"{self.path}/{layout.partition_directory(partition)}"
        path = free_name(
            self._disk,
            parent=self.path,
            partition=partition,
            token=topic_id_of(self._disk, directory) or NO_TOPIC_ID,
            suffix=layout.STRAY_DIRECTORY,
        )
        self._disk.rename(directory, path)
        self._disk.sync_directory(self.path)
        self._forget(partition)
        return path

    def save_checkpoints(self) -> None:
        """Writes how far each log is synced and where it begins."""
        for partition, log in self.logs.items():
            self._recovery_points[partition] = log.recovery_point
            self._start_offsets[partition] = log.start_offset
        self._write_offsets(layout.RECOVERY_POINTS, self._recovery_points)
        self._write_offsets(layout.START_OFFSETS, self._start_offsets)

    def close(self, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Closes every log and leaves the marker of a clean stop."""
        for log in self.logs.values():
            log.close()
        self.save_checkpoints()
        marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._disk.write_whole(f"{self.path}/{layout.CLEAN_SHUTDOWN}", marker.encode())
        self._lock.close()

    def abandon(self) -> None:
        """Lets go of everything without writing: what a crash would leave."""
        for log in self.logs.values():
            log.abandon()
        self._lock.close()

    def _finish_deletions(self) -> None:
        for name in self._disk.names(self.path):
            path = f"{self.path}/{name}"
            if name.endswith(layout.DELETED_DIRECTORY) and self._disk.is_directory(path):
                self._disk.remove_tree(path)

    def _forget(self, partition: TopicPartition) -> None:
        """A partition made anew under this name must not begin with the offsets of the old one."""
        self._recovery_points.pop(partition, None)
        self._start_offsets.pop(partition, None)
        self.save_checkpoints()

    def _read_offsets(self, name: str) -> dict[TopicPartition, Offset]:
        path = f"{self.path}/{name}"
        if not self._disk.exists(path):
            return {}
        try:
            return decode_offsets(path, self._disk.read(path))
        except CorruptCheckpoint:
            # Without a recovery point everything is scanned, and without a start a log begins
            # with its first segment: slow and safe.
            self.clean = False
            return {}

    def _write_offsets(self, name: str, offsets: dict[TopicPartition, Offset]) -> None:
        self._disk.write_whole(f"{self.path}/{name}", encode_offsets(offsets))

    def _add_up(self, report: RecoveryReport) -> None:
        total = self.recovery
        self.recovery = replace(
            total,
            segments_scanned=total.segments_scanned + report.segments_scanned,
            segments_dropped=total.segments_dropped + report.segments_dropped,
            bytes_scanned=total.bytes_scanned + report.bytes_scanned,
            bytes_cut=total.bytes_cut + report.bytes_cut,
            indexes_rebuilt=total.indexes_rebuilt + report.indexes_rebuilt,
            reasons=[*total.reasons, *report.reasons],
        )


def read_identity(disk: Disk, path: str) -> DirectoryIdentity | None:
    """Whose directory it is; None when it has not been formatted."""
    file = f"{path}/{layout.IDENTITY}"
    return decode_identity(file, disk.read(file)) if disk.exists(file) else None


def write_identity(disk: Disk, path: str, identity: DirectoryIdentity) -> None:
    """Formats a directory: from now on it is this node's."""
    disk.make_directory(path)
    disk.write_whole(f"{path}/{layout.IDENTITY}", encode_identity(identity))

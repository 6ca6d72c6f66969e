"""One data directory of a node: its owner, its partitions, and whether anything of it was lost.

A clean stop leaves a marker; the next start removes it before anything is written, so that it is
valid only for that stop. A process that was killed leaves its start file (`log/start_file`): if the
machine has run since then, nothing is lost either (`LogDirectory.clean_epoch`). A partition is
deleted by renaming its directory; the files are removed later (`log/removals`), by the next start
at the latest. Creation and deletion cost a few syncs for any number of partitions, so callers pass
all partitions at once.

A directory may also hold future logs (`log/copying`): copies of partitions of another directory,
whose places they are to take. Until then they are not partitions of this directory, except that
their offsets are in its checkpoints.

Invariants:
 1. One node at a time: the lock is held from `open` to `close`.
 2. The marker is on disk only while no node runs, and only when every log was closed. Those that
    were not opened were left by a clean stop before.
 3. A new directory is claimed on disk, and no checkpoint has an entry of its name, before its log
    can be written to.
 4. A partition has one log here at most, current or future. A future log gets its final name when
    all of it is on disk, and its offsets in the checkpoints.

Start reading at `LogDirectory.open_logs` and `LogDirectory.delete_partitions`.
"""

import json
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.log import layout
from penstock.log.checkpoint import DirectoryIdentity, decode_identity, encode_identity
from penstock.log.claims import Claims
from penstock.log.creation import free_name, topic_id_of
from penstock.log.errors import (
    CorruptCheckpoint,
    CorruptData,
    CorruptLog,
    RecordsLost,
    TopicIdMismatch,
)
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.offset_checkpoints import OffsetCheckpoints
from penstock.log.opening import PRODUCER_EXPIRY_MS, LeftBehind, open_log
from penstock.log.partition_log import PartitionLog
from penstock.log.recovery import RecoveryReport
from penstock.log.removals import Removals
from penstock.log.start_file import Start, StartFile
from penstock.model.identity import NO_TOPIC_ID, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.layout import FIRST_OFFSET
from penstock.world.errors import DiskError
from penstock.world.ports import Disk, File

NO_BROKER_EPOCH = -1

# Why one partition cannot be opened. A DiskError that is not for want of room: the directory takes
# no writes. Otherwise the others can be opened.
OpenError = DiskError | CorruptData | TopicIdMismatch


class UnreadableLog(CorruptData):
    """The disk does not give the files of a log, though it takes writes: a bad sector, perhaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWanted:
    """A log to be opened, or made."""

    partition: TopicPartition
    topic_id: TopicId
    settings: TopicSettings
    whole: bool = False  # RecordsLost if it ends below what was synced, at each start again
    found: bool = False  # at a start: it was there before


class LogDirectory:
    """A directory of partition logs; see the module's invariants."""

    def __init__(
        self,
        *,
        disk: Disk,
        path: str,
        lock: File,
        clean: bool,
        stopped_epoch: int,
        producer_expiry_ms: int,
    ) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}  # those that are open
        self.recovery = RecoveryReport(clean=clean)  # summed up over the logs opened so far
        self._disk = disk
        self._lock = lock
        self._loaded = LoadedIndexes()
        self._removals = Removals()
        self._claims = Claims(disk=disk, path=path)
        self._producer_expiry_ms = producer_expiry_ms
        every_log: ChainMap[TopicPartition, PartitionLog] = ChainMap(self.logs, self.futures)
        self._checkpoints = OffsetCheckpoints(disk=disk, path=path, logs=every_log)
        self.clean = clean and self._checkpoints.readable
        self._stopped_epoch = stopped_epoch
        self._refused: set[TopicPartition] = set()  # could not be opened
        self._damaged: set[TopicPartition] = set()  # of those, logs left as they were found
        self._no_power_lost = False  # since the last process wrote here
        self.start_file = StartFile(disk=disk, path=path)
        self._has_epoch = False  # the broker whose directory this is

    @classmethod
    def open(
        cls,
        *,
        disk: Disk,
        path: str,
        producer_expiry_ms: int = PRODUCER_EXPIRY_MS,
        boot_id: str = "",
    ) -> "LogDirectory":
        """Locks the directory, which is made if it does not exist; DiskError when another node uses
        it. `boot_id` is that of the machine, where it is known.
        """
        path = path.rstrip("/") or "/"
        make_lasting(disk, path)
        lock = disk.lock(f"{path}/{layout.LOCK}")
        marker = f"{path}/{layout.CLEAN_SHUTDOWN}"
        clean = disk.exists(marker)
        directory = cls(
            disk=disk,
            path=path,
            lock=lock,
            clean=clean,
            stopped_epoch=_epoch_in(disk.read(marker)) if clean else NO_BROKER_EPOCH,
            producer_expiry_ms=producer_expiry_ms,
        )
        if clean:
            disk.remove(marker)
            disk.sync_directory(path)
        directory._no_power_lost = directory._killed_epoch(boot_id) is not None
        directory._take_stock()
        return directory

    # Queries

    @property
    def identity(self) -> DirectoryIdentity | None:
        """The owner of the directory; None when it has not been formatted."""
        return read_identity(self._disk, self.path)

    @property
    def stopped_epoch(self) -> int | None:
        """The epoch of the broker that stopped cleanly here and left everything as it was; None
        when that is not known of all logs that were opened.
        """
        report = self.recovery
        cut = report.bytes_cut > 0 or report.segments_dropped > 0
        if not (self.clean and report.clean) or cut or self._stopped_epoch == NO_BROKER_EPOCH:
            return None
        return self._stopped_epoch

    def clean_epoch(self, boot_id: str) -> int | None:
        """The epoch of the broker that wrote here last, if everything that it wrote is here: it
        stopped cleanly, or was killed since the machine started. None when that is not known.

        Ask once every log has been opened: recovery decides.
        """
        if not self._checkpoints.readable or not self.recovery.intact:
            return None
        if not self._unopened() <= self._damaged:
            return None
        return self.stopped_epoch if self.clean else self._killed_epoch(boot_id)

    @property
    def is_restored(self) -> bool:
        """Whether a copy was put in the place of what the last process wrote to."""
        found = self.start_file.found
        if found is None or self.identity is None:
            return False
        return found.signature != self._signature()

    def partitions_found(self) -> dict[TopicPartition, TopicId | CorruptCheckpoint | None]:
        """The partitions that have a directory here, opened or not, with their topic ids.

        None: no claim. If the claim cannot be read, its value is the error.
        """
        found: dict[TopicPartition, TopicId | CorruptCheckpoint | None] = {}
        for name in self._disk.names(self.path):
            partition = layout.parse_partition_directory(name)
            if partition is not None and self._disk.is_directory(f"{self.path}/{name}"):
                found[partition] = self._claim_of(partition)
        return found

    def futures_found(self) -> dict[str, TopicPartition]:
        """The future directories here, opened or not: of which partitions, by their names."""
        parsed = {name: layout.parse_future_directory(name) for name in self._disk.names(self.path)}
        return {
            name: partition
            for name, partition in parsed.items()
            if partition is not None and self._disk.is_directory(f"{self.path}/{name}")
        }

    def topic_of_future(self, name: str) -> TopicId | None:
        """Of which topic a future directory is; None when it does not say."""
        try:
            return topic_id_of(self._disk, f"{self.path}/{name}")
        except CorruptCheckpoint:
            return None

    # Commands

    def remember_producers(self, expiry_ms: int) -> None:
        """Sets after how long without a batch a producer is forgotten."""
        if expiry_ms != self._producer_expiry_ms:
            self._producer_expiry_ms = expiry_ms
            for log in (*self.logs.values(), *self.futures.values()):
                log.producers.expiry_ms = expiry_ms

    def open_log(
        self,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        *,
        now_ms: int,
        whole: bool = False,
    ) -> PartitionLog:
        """The partition's log, loaded or created; raises an `OpenError`."""
        wanted = LogWanted(partition=partition, topic_id=topic_id, settings=settings, whole=whole)
        opened = self.open_logs([wanted], now_ms=now_ms)[partition]
        if not isinstance(opened, PartitionLog):
            raise opened
        return opened

    def open_logs(
        self, wanted: Iterable[LogWanted], *, now_ms: int
    ) -> dict[TopicPartition, PartitionLog | OpenError]:
        """The logs of many partitions, loaded or created, or the error for each that cannot be
        opened.
        """
        wanted = list(wanted)
        opened: dict[TopicPartition, PartitionLog | OpenError] = {}
        new = [one for one in wanted if not self._disk.exists(self._directory(one.partition))]
        made = {one.partition for one in new}
        try:
            self._make_directories(new)
        except DiskError as error:
            opened.update({one.partition: error for one in new})
        for one in wanted:
            if one.partition in opened:
                continue
            try:
                opened[one.partition] = self._open(one, now_ms)
            except (DiskError, CorruptData, TopicIdMismatch) as error:
                self._refused.add(one.partition)
                opened[one.partition] = self._refusal(
                    one.partition, error, is_made=one.partition in made
                )
        return opened

    def open_found(self, partitions: Iterable[TopicPartition], *, now_ms: int) -> list[OpenError]:
        """Opens partitions that have a directory here, before the metadata tells their settings:
        `PartitionLog.reconfigure` follows. Returns why some could not be opened.
        """
        wanted = [
            LogWanted(partition=partition, topic_id=claim, settings=TopicSettings(), found=True)
            for partition in partitions
            if isinstance(claim := self._claim_of(partition), bytes) and partition not in self.logs
        ]
        opened = self.open_logs(wanted, now_ms=now_ms).values()
        return [one for one in opened if not isinstance(one, PartitionLog)]

    def note_start(self, *, boot_id: str, broker_epoch: int) -> None:
        """The broker has this epoch from now on: what a kill leaves here is its."""
        self._has_epoch = True
        identity = self.identity
        if identity is not None:
            self.start_file.write(
                Start(
                    directory_id=identity.directory_id,
                    boot_id=boot_id,
                    broker_epoch=broker_epoch,
                    signature=self._signature(),
                )
            )

    def delete_partitions(
        self, partitions: Mapping[TopicPartition, TopicId]
    ) -> dict[TopicPartition, DiskError]:
        """Deletes partitions, opened or not; returns those that could not be deleted, with the
        errors.

        A partition is deleted once its directory is renamed. Without an open log the claim decides:
        the directory of another topic is kept, and one that cannot be read is set aside.
        """
        failed: dict[TopicPartition, DiskError] = {}
        retired: dict[TopicPartition, str] = {}
        for partition, topic_id in partitions.items():
            try:
                path = self._retire(partition, topic_id)
            except DiskError as error:
                failed[partition] = error
            else:
                retired.update({} if path is None else {partition: path})
        try:
            if retired:
                self._disk.sync_directory(self.path)
        except DiskError as error:
            failed.update(dict.fromkeys(retired, error))
        return failed

    def open_future(
        self,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        *,
        name: str | None = None,
        now_ms: int,
    ) -> PartitionLog:
        """The future log in the directory `name`, or in a new one; raises an `OpenError`."""
        assert partition not in self.futures, partition
        assert not self._disk.exists(self._directory(partition)), partition
        if name is None:
            self._checkpoints.clear_way({partition})
            path = free_name(
                self._disk,
                parent=self.path,
                partition=partition,
                token=topic_id,
                suffix=layout.FUTURE_DIRECTORY,
            )
        else:
            path = f"{self.path}/{name}"
        # Not as after a clean stop: it may have been left alone by the process that stopped.
        left = LeftBehind(
            recovery_point=self._checkpoints.recovery_point(partition),
            start_offset=self._checkpoints.start_offset(partition),
            cleaned_offset=self._checkpoints.cleaned_offset(partition),
        )
        # What a crash has left of a copy is compared with its source: nothing is lost by a cut.
        log = self._load(
            path, partition, topic_id, settings, left, now_ms=now_ms, about_to_lose=lambda: None
        )
        self.futures[partition] = log
        return log

    def replace_by_future(
        self, partition: TopicPartition, *, watermark: Offset | None, now_ms: int
    ) -> PartitionLog:
        """Gives a future log, which is complete, its final name, and opens it under that; the log
        whose place it takes is in another directory, and still there.

        DiskError: the future log is closed; whether it has its final name is not known.
        """
        future = self.futures[partition]
        topic_id, settings = future.topic_id, future.settings
        if watermark is not None:
            future.note_watermark(watermark)
        future.close()
        # Invariant 4: after a crash the next start need not scan all of it.
        self.save_checkpoints()
        del self.futures[partition]
        self._disk.rename(future.directory, self._directory(partition))
        self._disk.sync_directory(self.path)
        left = LeftBehind(
            clean=True,
            recovery_point=future.end_offset,
            start_offset=future.start_offset,
            cleaned_offset=future.cleaned_offset,
            watermark=watermark,
        )
        log = self._load(
            self._directory(partition), partition, topic_id, settings, left,
            now_ms=now_ms, about_to_lose=self._about_to_lose,
        )  # fmt: skip
        assert log.end_offset == future.end_offset, (log.end_offset, future.end_offset)
        for entry in future.epochs.entries:
            log.epochs.assign(entry.epoch, entry.start_offset)  # one without a record is not stored
        self.logs[partition] = log
        return log

    def adopt_future(self, name: str) -> None:
        """A future directory becomes the partition's own, since there is no other: records may be
        missing.
        """
        partition = layout.parse_future_directory(name)
        assert partition is not None, name
        self._about_to_lose()
        self._disk.rename(f"{self.path}/{name}", self._directory(partition))
        self._disk.sync_directory(self.path)

    def delete_future(self, name: str) -> None:
        """Deletes a future directory, opened or not, as a partition is deleted."""
        self._put_away_future(name, layout.DELETED_DIRECTORY)

    def set_aside_future(self, name: str) -> str:
        """Renames a future directory that no partition is known for; its new path."""
        return self._put_away_future(name, layout.STRAY_DIRECTORY)

    def leave_future(self, partition: TopicPartition) -> None:
        """Closes a future log, whose source has failed; the next start decides about it."""
        self.futures.pop(partition).abandon()

    def advance_starts(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`PartitionLog.advance_start` for many logs, with one write; DiskError as there."""
        self.move_starts(offsets)
        for partition in offsets:
            self.logs[partition].drop_below_start()

    def move_starts(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """The first half: segments below are still to be deleted. DiskError: no start has moved."""
        before = {partition: self.logs[partition].start_offset for partition in offsets}
        for partition, offset in offsets.items():
            self.logs[partition].move_start(max(offset, before[partition]))
        try:
            if any(offset > before[partition] for partition, offset in offsets.items()):
                self._checkpoints.save_start_offsets()
        except DiskError:
            for partition, offset in before.items():
                self.logs[partition].move_start(offset)
            raise

    def take_removable(self, *, now_ms: int) -> list[str]:
        """The deleted files and directories whose delay is over, for `Disk.remove_trees`."""
        return self._removals.take_due(now_ms)

    def set_aside_stray(self, partition: TopicPartition) -> str:
        """Renames the directory of a partition that the metadata does not know, or that is damaged;
        its new path.

        It is kept, and later starts ignore it: lost metadata must not cause loss of data.
        """
        log = self.logs.pop(partition, None)
        if log is not None:
            log.retire()
        self._refused.discard(partition)
        self._damaged.discard(partition)
        path = self._rename(
            partition, token=self._claim_of(partition), suffix=layout.STRAY_DIRECTORY
        )
        self._disk.sync_directory(self.path)
        return path

    def save_checkpoints(self) -> None:
        """Writes how far each log is synced, where it begins, and its high watermark."""
        self._checkpoints.save()

    def raise_watermarks(self) -> None:
        """Writes the high watermarks that were noted, if any has changed, without a sync."""
        self._checkpoints.raise_watermarks()

    def close(self, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Closes every log and leaves the marker of a clean stop, unless recovery has not come to
        some of the logs yet.
        """
        is_clean = self.clean or self._unopened() <= self._refused
        logs = (*self.logs.values(), *self.futures.values())
        closing = [log for log in logs if not log.is_closed]
        self._disk.sync_all([path for log in closing for path in log.begin_close()])
        for log in closing:
            log.finish_close()
        self._claims.settle()
        self.save_checkpoints()
        if is_clean:
            marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
            self._disk.write_whole(f"{self.path}/{layout.CLEAN_SHUTDOWN}", marker.encode())
        self._lock.close()

    def abandon(self) -> None:
        """Releases everything without writing, as after a crash."""
        for log in (*self.logs.values(), *self.futures.values()):
            log.abandon()
        self._lock.close()

    def _directory(self, partition: TopicPartition) -> str:
        return f"{self.path}/{layout.partition_directory(partition)}"

    def _signature(self) -> str:
        """Of a file that is written when the directory is formatted, and then no more."""
        return self._disk.signature(f"{self.path}/{layout.IDENTITY}")

    def _unopened(self) -> set[TopicPartition]:
        """Partitions with a directory here whose log is not open."""
        parsed = map(layout.parse_partition_directory, self._disk.names(self.path))
        unopened = {one for one in parsed if one is not None} - self.logs.keys()
        return {one for one in unopened if self._disk.is_directory(self._directory(one))}

    def _committed(self, partition: TopicPartition) -> Offset:
        """Below it nothing can have been lost since the last process wrote here."""
        watermark = self._checkpoints.watermark(partition)
        return watermark if watermark is not None and self._no_power_lost else FIRST_OFFSET

    def _refusal(self, partition: TopicPartition, error: OpenError, *, is_made: bool) -> OpenError:
        """Why a log is not opened, by the error that it met. If its files cannot be read, noting
        that shows whether the directory takes writes.
        """
        refusal = error
        if isinstance(error, DiskError):
            if error.full or is_made or partition in self.logs:
                return error  # a write has failed
            refusal = UnreadableLog(str(error))
        elif not isinstance(error, CorruptLog):
            return error
        path = self._directory(partition)
        if self._disk.exists(path) and not self._disk.is_directory(path):
            return refusal  # a file has its name
        try:
            self._note_damaged(partition)
        except DiskError as failure:
            return failure
        return refusal

    def _note_damaged(self, partition: TopicPartition) -> None:
        """The log is left as it is, by this start and by later ones, whatever these know of power
        losses and clean stops.
        """
        path = f"{self._directory(partition)}/{layout.DAMAGED}"
        if not self._disk.exists(path):
            whole = max(self._checkpoints.recovery_point(partition), self._committed(partition))
            self._disk.write_whole(path, f"{whole}\n".encode())
            self._disk.sync_directory(self._directory(partition))
        self._damaged.add(partition)

    def _damaged_below(self, partition: TopicPartition) -> Offset | None:
        """Up to where a log that an earlier start found damaged is known to have been whole."""
        path = f"{self._directory(partition)}/{layout.DAMAGED}"
        if not self._disk.exists(path):
            return None
        try:
            return Offset(int(self._disk.read(path)))
        except ValueError:
            return self._checkpoints.recovery_point(partition)

    def _killed_epoch(self, boot_id: str) -> int | None:
        """The epoch of a broker that was killed here, if nothing of what it wrote can be lost."""
        identity = self.identity
        if identity is None:
            return None
        return self.start_file.epoch_of(
            directory_id=identity.directory_id, boot_id=boot_id, signature=self._signature()
        )

    def _about_to_lose(self) -> None:
        """Recovery removes what may have been acked. DiskError: it must not."""
        self.start_file.remove()
        self.recovery.intact = False

    def _about_to_lose_found(self) -> None:
        """The same, before the broker has an epoch: it gets one that is known to have lost it."""
        self.start_file.forget()
        self.recovery.intact = False

    def _claim_of(self, partition: TopicPartition) -> TopicId | CorruptCheckpoint | None:
        try:
            return topic_id_of(self._disk, self._directory(partition))
        except CorruptCheckpoint as error:
            return error

    def _take_stock(self) -> None:
        """Goes over what a stop or a crash has left in the directory."""
        self._claims.settle()
        names = self._disk.names(self.path)
        for name in names:
            if name.endswith(layout.DELETED_DIRECTORY):
                self._removals.add(f"{self.path}/{name}", delay_ms=0)
        futures = set(self.futures_found().values())
        for partition in self._checkpoints.partitions():
            directory = layout.partition_directory(partition)
            if directory not in names and partition not in futures:
                if not any(_is_retired(name, directory) for name in names):
                    # Neither deleted nor set aside by a node, as far as it is known.
                    self._about_to_lose_found()
                    self.recovery.reasons.append(f"{self.path}/{directory}: is gone")
                self._checkpoints.forget(partition)

    def _make_directories(self, new: Sequence[LogWanted]) -> None:
        """Invariant 3, step by step: a crash after any of them leaves nothing that misleads."""
        partitions = {one.partition for one in new}
        if not partitions:
            return
        self._checkpoints.clear_way(partitions)
        self._claims.make_directories({one.partition: one.topic_id for one in new})

    def _open(self, wanted: LogWanted, now_ms: int) -> PartitionLog:
        partition = wanted.partition
        assert partition not in self.logs, partition
        recovery_point = self._checkpoints.recovery_point(partition)
        watermark = self._checkpoints.watermark(partition)
        damaged_below = self._damaged_below(partition)
        is_before = wanted.found and not self._has_epoch
        about_to_lose = self._about_to_lose_found if is_before else self._about_to_lose
        # All of a log that was damaged is looked through: somebody may have repaired it.
        left = LeftBehind(
            clean=self.clean and damaged_below is None,
            recovery_point=recovery_point if damaged_below is None else FIRST_OFFSET,
            start_offset=self._checkpoints.start_offset(partition),
            cleaned_offset=self._checkpoints.cleaned_offset(partition),
            watermark=watermark,
            committed=self._committed(partition) if damaged_below is None else damaged_below,
            # What an earlier start found damaged has not been written to since.
            is_end_torn_at_most=self._no_power_lost or damaged_below is not None,
            found=wanted.found,
        )
        log = self._load(
            self._directory(partition), partition, wanted.topic_id, wanted.settings, left,
            now_ms=now_ms, about_to_lose=about_to_lose,
        )  # fmt: skip
        if wanted.whole and log.end_offset < recovery_point:
            log.abandon()
            raise RecordsLost(
                log.directory, end_offset=log.end_offset, synced_offset=recovery_point
            )
        self.logs[partition] = log
        self._add_up(log.recovery)
        if damaged_below is not None:
            self._disk.remove(f"{log.directory}/{layout.DAMAGED}")
            self._damaged.discard(partition)
        if watermark is not None and log.end_offset < watermark:
            # Nothing was truncated to end here, so somebody has removed what was committed.
            about_to_lose()
            self.recovery.reasons.append(
                f"{log.directory}: ends at offset {log.end_offset}, below its high watermark"
                f" {watermark}"
            )
        if log.recovery_point < recovery_point:
            # Recovery has cut below it: what is written there now is not synced.
            self._checkpoints.save_recovery_points()
        if log.noted_watermark != watermark:
            # The same: what is written there now may never be committed.
            self._checkpoints.save_watermarks()
        return log

    def _load(
        self,
        path: str,
        partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        left: LeftBehind,
        *,
        now_ms: int,
        about_to_lose: Callable[[], None],
    ) -> PartitionLog:
        return open_log(
            disk=self._disk,
            directory=path,
            partition=partition,
            topic_id=topic_id,
            settings=settings,
            now_ms=now_ms,
            left=left,
            producer_expiry_ms=self._producer_expiry_ms,
            loaded=self._loaded,
            checkpoints=self._checkpoints,
            removals=self._removals,
            about_to_lose=about_to_lose,
        )

    def _put_away_future(self, name: str, suffix: str) -> str:
        partition = layout.parse_future_directory(name)
        assert partition is not None, name
        log = self.futures.get(partition)
        if log is not None and log.directory == f"{self.path}/{name}":
            log.retire()  # a sync of it may be under way
            del self.futures[partition]
        token = self.topic_of_future(name) or NO_TOPIC_ID
        path = free_name(
            self._disk, parent=self.path, partition=partition, token=token, suffix=suffix
        )
        self._disk.rename(f"{self.path}/{name}", path)
        self._disk.sync_directory(self.path)
        if partition not in self.logs and partition not in self.futures:
            # Else the next start would look for what these offsets are of.
            self._checkpoints.forget(partition)
            self._checkpoints.save()
        if suffix == layout.DELETED_DIRECTORY:
            self._removals.add(path, delay_ms=0)
        return path

    def _retire(self, partition: TopicPartition, topic_id: TopicId) -> str | None:
        """Renames a partition's directory; the new path, or None if there is none of that topic."""
        log = self.logs.get(partition)
        if log is not None:
            assert log.topic_id == topic_id, (log.topic_id, topic_id)
            log.retire()
            del self.logs[partition]
        elif not self._disk.exists(self._directory(partition)):
            return None
        claim = self._claim_of(partition)
        if log is None and isinstance(claim, CorruptCheckpoint):
            return self._rename(partition, token=claim, suffix=layout.STRAY_DIRECTORY)
        if log is None and claim != topic_id:
            return None
        path = self._rename(partition, token=topic_id, suffix=layout.DELETED_DIRECTORY)
        settings = TopicSettings() if log is None else log.settings
        self._removals.add(path, delay_ms=settings.file_delete_delay_ms)
        return path

    def _rename(
        self,
        partition: TopicPartition,
        *,
        token: TopicId | CorruptCheckpoint | None,
        suffix: str,
    ) -> str:
        path = free_name(
            self._disk,
            parent=self.path,
            partition=partition,
            token=token if isinstance(token, bytes) else NO_TOPIC_ID,
            suffix=suffix,
        )
        self._disk.rename(self._directory(partition), path)
        self._checkpoints.forget(partition)
        return path

    def _add_up(self, report: RecoveryReport) -> None:
        total = self.recovery
        self.recovery = replace(
            total,
            segments_scanned=total.segments_scanned + report.segments_scanned,
            segments_dropped=total.segments_dropped + report.segments_dropped,
            bytes_scanned=total.bytes_scanned + report.bytes_scanned,
            bytes_cut=total.bytes_cut + report.bytes_cut,
            indexes_rebuilt=total.indexes_rebuilt + report.indexes_rebuilt,
            intact=total.intact and report.intact,
            reasons=[*total.reasons, *report.reasons],
        )


def make_lasting(disk: Disk, path: str) -> None:
    """Makes the directory; its name, and those of the ones above that were made, are synced."""
    if path == "." or disk.is_directory(path):
        return
    above = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    make_lasting(disk, above)
    disk.make_directory(path)
    disk.sync_directory(above)


def sign_of_log_directory(disk: Disk, path: str) -> str | None:
    """What shows that a directory is one of partition logs, a node's or Apache Kafka's."""
    if not disk.is_directory(path):
        return None
    names = disk.names(path)
    for name in (layout.IDENTITY, layout.LOCK):
        if name in names:
            return name
    for name in sorted(names):
        # A name alone does not tell: the directory of node 1 could be that of a topic "node".
        inside = f"{path}/{name}"
        if layout.parse_partition_directory(name) is None or not disk.is_directory(inside):
            continue
        if any(
            file == layout.PARTITION_METADATA or layout.parse_segment_file(file) is not None
            for file in disk.names(inside)
        ):
            return f"partition {name}"
    return None


def read_identity(disk: Disk, path: str) -> DirectoryIdentity | None:
    """The owner of the directory; None when it has not been formatted."""
    file = f"{path}/{layout.IDENTITY}"
    return decode_identity(file, disk.read(file)) if disk.exists(file) else None


def write_identity(disk: Disk, path: str, identity: DirectoryIdentity) -> None:
    """Formats a directory for this node."""
    make_lasting(disk, path)
    disk.write_whole(f"{path}/{layout.IDENTITY}", encode_identity(identity))


def _is_retired(name: str, directory: str) -> bool:
    """Whether the directory of a partition got this name when it was deleted or set aside."""
    endings = (layout.DELETED_DIRECTORY, layout.STRAY_DIRECTORY)
    return name.startswith(f"{directory}.") and name.endswith(endings)


def _epoch_in(marker: bytes) -> int:
    """The broker epoch that a marker of a clean stop names; some have none."""
    try:
        found = json.loads(marker)
    except ValueError:
        return NO_BROKER_EPOCH
    epoch = found.get("brokerEpoch") if isinstance(found, dict) else None
    return epoch if isinstance(epoch, int) else NO_BROKER_EPOCH

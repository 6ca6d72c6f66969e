"""The directories that hold a node's partitions: `log.dirs`.

Each partition has one home, found by looking into every directory at a start; a new one gets the
directory that holds fewest. A partition that was found in several directories was made anew while
one of them was offline: the metadata decides which copy is right, and the others are set aside
(`settle_copies`). A directory that fails is offline until the next start: its partitions
are served no longer, the others are. Without the directory of the metadata log, or without any, a
node cannot go on.

A partition that is being moved has a future log in another directory
(`broker/partitions/directory_moves`), which becomes its only one in the end.

Before a broker registers, all logs are opened (`recover`): then it is known whether everything is
there that it wrote before (`clean_epoch`). From then on each directory has a start file, until a
write or a sync in it fails.

Invariants:
 1. A partition has at most one home, and its log is open nowhere else.
 2. A directory is online or failed, never both; nothing is written to a failed one.
 3. A partition has at most one future log that is open, in another directory than its home.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, assert_never

from penstock.broker.partitions.homes import Homes
from penstock.log.directory import NO_BROKER_EPOCH, LogDirectory, LogWanted, OpenError
from penstock.log.partition_log import PartitionLog
from penstock.model.events import DISK_FAILED
from penstock.model.identity import METADATA_TOPIC, TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.replication.directory_move import Fate, fate_of
from penstock.world.errors import DiskError
from penstock.world.event_log import tell
from penstock.world.ports import Disk

logger = logging.getLogger(__name__)


class DirectoryLost(DiskError):
    """A directory without which the node cannot go on has failed."""


class HeldReplica(NamedTuple):
    """What the metadata says of a replica here."""

    topic_id: TopicId
    directory_id: bytes  # where it is


class LogDirectories:
    """See the module. `metadata` is one of those online, or one apart without partitions."""

    def __init__(
        self,
        online: Iterable[LogDirectory] = (),
        *,
        metadata: LogDirectory | None = None,
        failed: Mapping[str, str] | None = None,
        boot_id: str = "",
    ) -> None:
        self._boot_id = boot_id
        self.online = {directory.path: directory for directory in online}
        self.failed = dict(failed or {})  # why, by path
        self._metadata = metadata
        self._start_file_stuck = False  # one says that nothing is lost, and could not be removed
        self._made_anew = False  # whether a partition that should have been there was not
        self._watermarks_unsaved: set[str] = set()  # by path: told already
        self._homes = Homes()
        # Those found in several directories, until `settle_copies`: none of these logs is open.
        self._copies: dict[TopicPartition, list[LogDirectory]] = {}
        self._futures: dict[TopicPartition, LogDirectory] = {}  # where a future log is open
        # To be resumed: the names of future directories, until `open_future`.
        self._resumable: dict[TopicPartition, tuple[LogDirectory, str]] = {}
        # Where a partition that is not here yet is to be made.
        self._preferred: dict[TopicPartition, str] = {}
        for directory in self.online.values():
            for partition in directory.partitions_found():
                self._found(partition, directory)

    @classmethod
    def open(
        cls,
        *,
        disk: Disk,
        paths: Iterable[str],
        metadata_path: str,
        producer_expiry_ms: int,
        boot_id: str = "",
    ) -> "LogDirectories":
        """Takes all of them. One that cannot be had is offline; the metadata's is a DiskError."""
        opened: dict[str, LogDirectory] = {}
        failed: dict[str, str] = {}
        metadata_path = normal(metadata_path)
        paths = [normal(path) for path in paths]
        try:
            for path in dict.fromkeys((metadata_path, *paths)):
                try:
                    opened[path] = LogDirectory.open(
                        disk=disk,
                        path=path,
                        producer_expiry_ms=producer_expiry_ms,
                        boot_id=boot_id,
                    )
                except DiskError as error:
                    if path == metadata_path or len(paths) == 1:
                        raise
                    tell(logger, DISK_FAILED, directory=path, reason=error.reason)
                    failed[path] = error.reason
            made = cls(
                [opened[path] for path in paths if path in opened],
                metadata=opened[metadata_path],
                failed=failed,
                boot_id=boot_id,
            )
            for directory in made:
                disk.watch(directory.path, partial(made.io_failed, directory))
            return made
        except BaseException:
            for directory in opened.values():
                directory.abandon()
            raise

    # Queries

    def __iter__(self) -> Iterator[LogDirectory]:
        """All that are online, that of the metadata included."""
        yield from self.online.values()
        if self._metadata is not None and self._metadata.path not in self.online:
            yield self._metadata

    @property
    def metadata(self) -> LogDirectory:
        assert self._metadata is not None, "directories without that of the metadata"
        return self._metadata

    @property
    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """Every log that is open."""
        return {name: log for directory in self for name, log in directory.logs.items()}

    @property
    def stopped_epoch(self) -> int | None:
        """The epoch of the broker that stopped cleanly and left every directory as it was; None
        when one is missing, new, of another stop, or was not left so, or when a partition was gone.
        """
        epochs = {directory.stopped_epoch for directory in self}
        intact = not self.failed and not self._made_anew
        return epochs.pop() if intact and len(epochs) == 1 else None

    @property
    def clean_epoch(self) -> int | None:
        """The epoch of the broker that wrote here last, if everything that it wrote is here: it
        stopped cleanly, or was killed and nothing was lost. Ask after `recover`.

        None when a directory is missing or new, when they do not agree, or when one is not sure.
        """
        epochs = {directory.clean_epoch(self._boot_id) for directory in self}
        return epochs.pop() if len(epochs) == 1 and not self.failed else None

    def has(self, partition: TopicPartition) -> bool:
        """Whether a directory that is online has the partition, opened or not."""
        return partition in self._homes

    def log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """A partition's log, if it is open."""
        home = self._homes.get(partition)
        return None if home is None else home.logs.get(partition)

    def home_of(self, partition: TopicPartition) -> str | None:
        """The path of the directory that a partition is in, if that is online."""
        home = self._homes.get(partition)
        return None if home is None else home.path

    def lost_home_of(self, partition: TopicPartition) -> str | None:
        """The path of the directory that a partition was in, if that has failed since the start."""
        return self._homes.lost_of(partition)

    def future_of(self, partition: TopicPartition) -> PartitionLog | None:
        """A partition's future log, if it is being moved."""
        home = self._futures.get(partition)
        return None if home is None else home.futures[partition]

    def future_home_of(self, partition: TopicPartition) -> str | None:
        """The path of the directory that a partition is being moved to."""
        home = self._futures.get(partition)
        return None if home is None else home.path

    def check(self) -> None:
        for partition, directory in self._futures.items():
            assert partition in directory.futures, "invariant 3"
            assert self._homes.get(partition) is not directory, "invariant 3"
        for directory in self.online.values():
            for partition in directory.futures:
                assert self._futures.get(partition) is directory, "invariant 3"
        for directory in self.online.values():
            assert directory.path not in self.failed, "invariant 2"
            for partition in directory.logs:
                known = partition.topic == METADATA_TOPIC
                assert known or self._homes[partition] is directory, "invariant 1"
        self._homes.check()

    # Commands

    def remember_producers(self, expiry_ms: int) -> None:
        """From now on a producer is forgotten once it has been silent for so long."""
        for directory in self:
            directory.remember_producers(expiry_ms)

    async def recover(self, *, now_ms: int) -> None:
        """Opens every log that is found, before the metadata says what they are: those that belong
        to no topic are set aside later. Others have their turn between two logs.
        """
        for partition, home in sorted(self._homes.items(), key=lambda found: found[0]):
            if partition in self._copies:
                continue
            for error in home.open_found([partition], now_ms=now_ms):
                logger.error("partition=%s recovered=false reason=%s", partition, error)
            await asyncio.sleep(0)
        for directory in self:
            if directory.is_restored:
                logger.warning(
                    "directory=%s clean=false reason=it was restored from a copy, and may lack"
                    " records",
                    directory.path,
                )

    def note_start(self, broker_epoch: int) -> None:
        """The broker has this epoch from now on. Without the file its next start is unclean."""
        for directory in self:
            try:
                directory.note_start(boot_id=self._boot_id, broker_epoch=broker_epoch)
            except DiskError as error:
                logger.error("directory=%s start_file=unsaved reason=%s", directory.path, error)

    def io_failed(self, directory: LogDirectory) -> None:
        """What the disk has of this directory may be less than was written: if the process ends
        now, its next start is not clean. Called before anybody acts on the failure.
        """
        try:
            directory.start_file.remove()
        except DiskError as error:
            self._start_file_stuck = True
            if not self._removed_elsewhere(directory):
                logger.critical(
                    "directory=%s start_file=%s removed=false reason=%s remove it by hand before"
                    " this node starts again: else the node is taken to have lost nothing",
                    directory.path, directory.start_file.path, error.reason,
                )  # fmt: skip

    def forget_starts(self) -> None:
        """Records are gone that were here: this start is not clean, nor is the next one unless the
        controller learns of it, by another registration.
        """
        for directory in self:
            try:
                directory.start_file.forget()
            except DiskError:
                self.io_failed(directory)

    def open_logs(
        self, wanted: Iterable[LogWanted], *, now_ms: int, unheard_of: Container[TopicPartition]
    ) -> dict[TopicPartition, PartitionLog | OpenError]:
        """The logs of many partitions, loaded or made, or what keeps one from being opened.

        A partition that is in no directory is made only if none is offline, which may well hold
        it, or if it was `unheard_of` until now.
        """
        opened: dict[TopicPartition, PartitionLog | OpenError] = {}
        by_home: dict[str, list[LogWanted]] = {}
        for one in wanted:
            home = self._homes.get(one.partition)
            if home is None and self.failed and one.partition not in unheard_of:
                lost = ", ".join(sorted(self.failed))
                opened[one.partition] = DiskError(lost, "offline, and may hold the partition")
                continue
            if home is None:
                self._made_anew |= one.partition not in unheard_of
                preferred = self.online.get(self._preferred.pop(one.partition, ""))
                home = preferred or self._homes.emptiest(self.online.values())
                self._homes.put(one.partition, home)
            by_home.setdefault(home.path, []).append(one)
        for path, ones in by_home.items():
            opened.update(self.online[path].open_logs(ones, now_ms=now_ms))
        return opened

    def delete_partitions(
        self, partitions: Mapping[TopicPartition, TopicId]
    ) -> dict[TopicPartition, DiskError]:
        """Deletes partitions, opened or not, and future logs of them; which could not be, and
        why.
        """
        by_home: dict[str, dict[TopicPartition, TopicId]] = {}
        for partition, topic_id in partitions.items():
            self._preferred.pop(partition, None)
            self.delete_future(partition)
            home = self._homes.remove(partition)
            if home is not None:
                by_home.setdefault(home.path, {})[partition] = topic_id
        failed: dict[TopicPartition, DiskError] = {}
        for path, gone in by_home.items():
            failed.update(self.online[path].delete_partitions(gone))
        return failed

    def advance_starts(
        self, offsets: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, DiskError]:
        """Drops records below these offsets; where that failed nothing has moved."""
        return self._by_home(offsets, LogDirectory.advance_starts)

    def move_starts(
        self, offsets: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, DiskError]:
        """The same, but the segments below are still to be dropped from each log."""
        return self._by_home(offsets, LogDirectory.move_starts)

    def take_removable(self, *, now_ms: int) -> list[str]:
        """Deleted files and directories whose delay is over, for `Disk.remove_trees`."""
        return [path for directory in self for path in directory.take_removable(now_ms=now_ms)]

    def settle_copies(self, belongs: Mapping[TopicPartition, HeldReplica], *, now_ms: int) -> None:
        """Decides, by the metadata, about partitions that lie in several directories (KIP-858): a
        topic was made anew, or a replica moved away and back, while a directory was offline. One
        copy stays, the others are renamed as strays.
        """
        copies_found, self._copies = self._copies, {}
        for partition, found in sorted(copies_found.items(), key=lambda copies: copies[0]):
            copies = [directory for directory in found if directory.path in self.online]
            if not copies:
                continue
            home = self._right_copy(partition, copies, belongs.get(partition), now_ms)
            self._homes.put(partition, home)
            for directory in copies:
                if directory is not home:
                    path = directory.set_aside_stray(partition)
                    logger.warning(
                        "partition=%s stray=true set_aside=%s reason=it lies in %s too",
                        partition, path, home.path,
                    )  # fmt: skip

    def set_aside_damaged(self, partition: TopicPartition) -> str:
        """The damaged log of a partition is kept under another name, which is returned; the next
        one is made in the same directory. DiskError also when that is offline.
        """
        home = self._homes.get(partition)
        if home is None:
            raise DiskError(str(partition), "its log directory is offline")
        return home.set_aside_stray(partition)

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """A partition that is not here yet is to be made in this directory."""
        assert path in self.online, path
        self._preferred[partition] = path

    def settle_futures(self, belongs: Mapping[TopicPartition, HeldReplica]) -> list[TopicPartition]:
        """Decides, by the metadata, about the future directories that a start finds. Call it after
        `settle_copies`. Returns the partitions of which a future log is all that is left.
        """
        adopted: list[TopicPartition] = []
        for directory in self.online.values():
            for name, partition in directory.futures_found().items():
                replica = belongs.get(partition)
                home = self._homes.get(partition)
                identity = directory.identity
                match fate_of(
                    is_replica=replica is not None
                    and directory.topic_of_future(name) == replica.topic_id,
                    has_current=home is not None and partition not in adopted,
                    same_directory=home is directory,
                    is_second=partition in self._resumable or partition in adopted,
                    is_assigned=replica is not None
                    and identity is not None
                    and identity.directory_id == replica.directory_id,
                    some_offline=bool(self.failed),
                ):
                    case Fate.RESUME:
                        self._resumable[partition] = (directory, name)
                    case Fate.DELETE:
                        directory.delete_future(name)
                        logger.info("partition=%s future=%s deleted=true", partition, name)
                    case Fate.ADOPT:
                        directory.adopt_future(name)
                        self._homes.put(partition, directory)
                        adopted.append(partition)
                        logger.error(
                            "partition=%s directory=%s reason=only a copy of it is left, which was"
                            " being made for a move: records may be missing",
                            partition, directory.path,
                        )  # fmt: skip
                    case Fate.SET_ASIDE:
                        path = directory.set_aside_future(name)
                        logger.warning("partition=%s stray=true set_aside=%s", partition, path)
                    case Fate.LEAVE:
                        logger.warning(
                            "partition=%s future=%s left=true reason=a directory is offline",
                            partition, name,
                        )  # fmt: skip
                    case _ as never:
                        assert_never(never)
        return adopted

    def resumable(self) -> dict[TopicPartition, str]:
        """The partitions whose move is to be resumed, with the directories they go to."""
        return {
            partition: directory.path
            for partition, (directory, _) in self._resumable.items()
            if directory.path in self.online
        }

    def open_future(
        self, partition: TopicPartition, path: str, topic_id: TopicId, *, now_ms: int
    ) -> PartitionLog:
        """A future log of a partition in this directory; raises an `OpenError`."""
        assert partition not in self._futures, partition
        assert self.home_of(partition) != path, partition
        current = self.log_of(partition)
        assert current is not None, partition
        directory = self.online[path]
        found = self._resumable.pop(partition, None)
        name = None
        if found is not None and found[0] is directory:
            name = found[1]
        elif found is not None and found[0].path in self.online:
            found[0].delete_future(found[1])
        log = directory.open_future(partition, topic_id, current.settings, name=name, now_ms=now_ms)
        self._futures[partition] = directory
        return log

    def delete_future(self, partition: TopicPartition) -> None:
        """Ends a move: what was copied is deleted. DiskError is logged: the next start does it."""
        directory = self._futures.pop(partition, None)
        found = self._resumable.pop(partition, None)
        if directory is not None:
            name = directory.futures[partition].directory.rpartition("/")[2]
        elif found is not None and found[0].path in self.online:
            directory, name = found
        else:
            return
        try:
            directory.delete_future(name)
        except DiskError as error:
            directory.futures.pop(partition, None)
            logger.error("partition=%s future=%s deleted=false reason=%s", partition, name, error)

    def leave_future(self, partition: TopicPartition) -> None:
        """The directory of the current log has failed: the next start decides about the copy."""
        directory = self._futures.pop(partition, None)
        if directory is not None:
            directory.leave_future(partition)

    def replace_by_future(
        self, partition: TopicPartition, *, watermark: Offset | None, now_ms: int
    ) -> PartitionLog:
        """The future log, which has everything and is closed by this, becomes the partition's log.
        The one before is still open, and is to be deleted: `delete_replaced`.

        DiskError: the log before is the partition's log still. For want of room the future one is
        deleted; otherwise its directory has failed.
        """
        directory = self._futures[partition]
        try:
            log = directory.replace_by_future(partition, watermark=watermark, now_ms=now_ms)
        except DiskError as error:
            if partition in directory.futures:
                self.delete_future(partition)
                raise
            self._futures.pop(partition)
            raise DiskError(error.path, error.reason) from error  # it has its final name already
        del self._futures[partition]
        self._homes.put(partition, directory)
        return log

    def delete_replaced(self, path: str, partition: TopicPartition) -> None:
        """Deletes the log in this directory whose place another has taken; DiskError: it has
        failed.
        """
        directory = self.online[path]
        topic_id = directory.logs[partition].topic_id
        failed = directory.delete_partitions({partition: topic_id})
        if failed:
            raise failed[partition]

    def delete_removed(self, elsewhere: Mapping[TopicPartition, TopicId]) -> None:
        """Deletes what the metadata assign to other brokers only: its replica was removed from here
        while this broker was down, or was about to delete it. Who was to take it over has it.
        """
        removed = {
            partition: topic_id
            for directory in self.online.values()
            for partition, topic_id in directory.partitions_found().items()
            if isinstance(topic_id, bytes) and elsewhere.get(partition) == topic_id
        }
        failed = self.delete_partitions(removed)
        for partition in sorted(removed):
            if partition in failed:
                logger.error("partition=%s deleted=false reason=%s", partition, failed[partition])
            else:
                logger.info("partition=%s replica=removed deleted=true", partition)

    def set_aside_strays(self, belongs: Mapping[TopicPartition, TopicId]) -> None:
        """Puts away what belongs to no topic: a crash came between the deletion of a topic and that
        of its files, or the files are from elsewhere. They are renamed, never deleted: were the
        metadata lost, this would be all the data.
        """
        for directory in self.online.values():
            for partition, topic_id in directory.partitions_found().items():
                if partition.topic == METADATA_TOPIC:
                    continue
                if not isinstance(topic_id, bytes) or belongs.get(partition) == topic_id:
                    continue
                path = directory.set_aside_stray(partition)
                self._homes.remove(partition)
                logger.warning("partition=%s stray=true set_aside=%s", partition, path)

    def partitions_claimed(self) -> list[TopicPartition]:
        """What lies in the directories and carries the id of a topic, the metadata aside."""
        return sorted(
            partition
            for directory in self.online.values()
            for partition, topic_id in directory.partitions_found().items()
            if partition.topic != METADATA_TOPIC and isinstance(topic_id, bytes)
        )

    def save_checkpoints(self) -> None:
        """Of every directory; one that cannot keeps its older ones, which costs the next start."""
        for directory in self:
            try:
                directory.save_checkpoints()
            except DiskError as error:
                logger.error("directory=%s checkpoints=unsaved reason=%s", directory.path, error)

    def raise_watermarks(self) -> None:
        """Of every directory; one that cannot keeps its older ones, which are no higher: that is
        logged once, until it can again.
        """
        for directory in self.online.values():
            try:
                directory.raise_watermarks()
            except DiskError as error:
                if directory.path not in self._watermarks_unsaved:
                    self._watermarks_unsaved.add(directory.path)
                    logger.error("directory=%s watermarks=unsaved reason=%s", directory.path, error)
            else:
                self._watermarks_unsaved.discard(directory.path)

    def fail(self, path: str, reason: str) -> None:
        """Takes a directory offline; DirectoryLost when the node cannot go on without it."""
        directory = self.online.pop(path, None)
        if directory is None:
            return
        self.io_failed(directory)
        self.failed[path] = reason
        self._homes.drop(directory)
        self._futures = {
            name: future for name, future in self._futures.items() if future is not directory
        }
        self._preferred = {
            name: preferred for name, preferred in self._preferred.items() if preferred != path
        }
        if directory is self._metadata:
            raise DirectoryLost(path, f"the directory of the metadata log has failed: {reason}")
        directory.abandon()
        if not self.online:
            lost = ", ".join(self.failed)
            raise DirectoryLost(path, f"all log directories have failed: {lost}: {reason}")

    def close(self, *, broker_epoch: int) -> None:
        """Marks each as cleanly stopped; one that cannot be is looked through by the next start.

        A broker that has got no epoch yet leaves what it found. No epoch is left if a start file
        is there that should have been removed: it may have this epoch, and the two would agree.
        """
        if broker_epoch == NO_BROKER_EPOCH:
            found = self.clean_epoch if self.stopped_epoch is None else self.stopped_epoch
            broker_epoch = NO_BROKER_EPOCH if found is None else found
        if self._start_file_stuck:
            broker_epoch = NO_BROKER_EPOCH
        for directory in self:
            try:
                directory.close(broker_epoch=broker_epoch)
            except DiskError as error:
                logger.error("directory=%s clean=false reason=%s", directory.path, error)
                directory.abandon()

    def abandon(self) -> None:
        for directory in self:
            directory.abandon()

    def _removed_elsewhere(self, directory: LogDirectory) -> bool:
        """A start is clean only if every directory says so: one that does not is enough."""
        for other in self:
            if other is directory:
                continue
            try:
                other.start_file.remove()
            except DiskError:
                continue
            return True
        return False

    def _by_home(
        self,
        offsets: Mapping[TopicPartition, Offset],
        move: Callable[[LogDirectory, Mapping[TopicPartition, Offset]], None],
    ) -> dict[TopicPartition, DiskError]:
        by_home: dict[str, dict[TopicPartition, Offset]] = {}
        for partition, offset in offsets.items():
            by_home.setdefault(self._homes[partition].path, {})[partition] = offset
        failed: dict[TopicPartition, DiskError] = {}
        for path, starts in by_home.items():
            try:
                move(self.online[path], starts)
            except DiskError as error:
                failed.update(dict.fromkeys(starts, error))
        return failed

    def _found(self, partition: TopicPartition, directory: LogDirectory) -> None:
        if partition.topic == METADATA_TOPIC:
            return
        home = self._homes.get(partition)
        if home is None:
            self._homes.put(partition, directory)
        else:
            self._copies.setdefault(partition, [home]).append(directory)

    def _right_copy(
        self,
        partition: TopicPartition,
        copies: Sequence[LogDirectory],
        belongs: HeldReplica | None,
        now_ms: int,
    ) -> LogDirectory:
        """The copy in the directory that the metadata names; otherwise the one that goes on for
        longest in the latest leader epoch.
        """
        if belongs is None:
            return copies[0]  # to be deleted or set aside
        of_topic = [
            directory
            for directory in copies
            if directory.partitions_found().get(partition) == belongs.topic_id
        ]
        for directory in of_topic:
            if (known := directory.identity) and known.directory_id == belongs.directory_id:
                return directory
        newest, newest_end = copies[0], (-1, -1)
        for directory in of_topic:
            for error in directory.open_found([partition], now_ms=now_ms):
                logger.error("partition=%s recovered=false reason=%s", partition, error)
            log = directory.logs.get(partition)
            end = (-1, 0) if log is None else (log.epochs.latest or 0, log.end_offset)
            if end > newest_end:
                newest, newest_end = directory, end
        return newest


def normal(path: str) -> str:
    return path.rstrip("/") or "/"

"""Syncs of partition logs: in rounds, each shared by all who wait for it.

    append, append, append     want, want, want      -> one round: one fsync a file
    append, append ...         while it runs         -> the next round

A round takes the partitions that want a sync by then, notes where their logs end, syncs all files
at once and moves the recovery points; acks and readers that waited for them go on. All syncs of
partition logs go through here, those of housekeeping too, so there is one of a log at a time. A
round takes no further log once it has ROUND_FILES_MAX files. One log may have more, after a loss of
power: the disk syncs those in portions, and its recovery point moves when all are done.

A failed sync is final: the kernel has dropped what it could not write, so a second attempt would
succeed without having written it. The directory goes offline (`failed`). A disk that is merely
full fails no sync; what cannot be noted beside the log for want of room, or cannot be opened for
want of descriptors, is tried again later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from penstock.log.partition_log import PartitionLog
from penstock.model.offset import Offset
from penstock.replication.replica import Replica
from penstock.world.errors import DiskError
from penstock.world.ports import Disk, File
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
ROUND_FILES_MAX = 128  # half of what may be open where 1,024 descriptors are allowed


class Syncing:
    """The syncs of one directory. `synced` is told of each log that was, `failed` of a sync that
    went wrong.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        failed: Callable[[DiskError], None],
        synced: Callable[[Replica], None],
    ) -> None:
        self._disk = disk
        self._failed = failed
        self._synced = synced
        self._wanted: dict[Replica, None] = {}  # in the order in which they came
        self._any_wanted = asyncio.Event()
        self._unnoted: set[Replica] = set()  # told already
        self._is_short_of_room = False  # told already

    def want(self, partition: Replica) -> None:
        """The next round syncs this partition's log."""
        self._wanted[partition] = None
        self._any_wanted.set()

    def forget(self, partition: Replica) -> None:
        """The partition has another log from now on, in another directory."""
        self._wanted.pop(partition, None)
        self._unnoted.discard(partition)

    async def run(self) -> None:
        """Rounds, one after the other, until cancelled."""
        while True:
            await self._any_wanted.wait()
            await self._sync_round()

    async def sync_wanted(self) -> None:
        """As many rounds as it takes."""
        while self._wanted:
            await self._sync_round()

    async def _sync_round(self) -> None:
        round_: list[tuple[Replica, PartitionLog, Offset]] = []
        files: list[File] = []
        try:
            # One step up to the await: the files are those that hold the logs up to these ends.
            while self._wanted and len(files) < ROUND_FILES_MAX:
                partition = next(iter(self._wanted))
                del self._wanted[partition]
                if partition.has_ended:
                    self._unnoted.discard(partition)
                else:
                    log = partition.log
                    round_.append((partition, log, log.end_offset))
                    files += log.unsynced_files()
            if not self._wanted:
                self._any_wanted.clear()
            if not round_:
                return
            await self._disk.sync(files)
        except DiskError as error:
            if not error.full:
                self._failed(error)
                return
            if not self._is_short_of_room:
                self._is_short_of_room = True
                logger.error("synced=later reason=%s", error)
            for partition, log, _ in round_:
                log.give_up_sync()
                self._try_again(partition, log)
            await asyncio.sleep(0)  # others have their turn between two rounds that fail at once
            return
        self._is_short_of_room = False
        for partition, log, end_offset in round_:
            if not log.is_closed:  # as it is when its partition has got another one meanwhile
                self._finish(partition, log, end_offset)

    def _finish(self, partition: Replica, log: PartitionLog, end_offset: Offset) -> None:
        try:
            log.mark_synced(end_offset)
        except DiskError as error:
            if not error.full:
                self._failed(error)
                return
            if partition not in self._unnoted:
                self._unnoted.add(partition)
                logger.error("partition=%s synced=unnoted reason=%s", partition.name, error)
            self._try_again(partition, log)
            return
        self._unnoted.discard(partition)
        if not partition.has_ended:
            self._synced(partition)

    def _try_again(self, partition: Replica, log: PartitionLog) -> None:
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._want_again, partition, log)

    def _want_again(self, partition: Replica, log: PartitionLog) -> None:
        if partition.log is log:
            self.want(partition)


async def run_all(directories: Iterable[Syncing]) -> None:
    """Until cancelled. Here, and not where it is called: that module is compiled (ADR 15)."""
    async with TaskGroup() as group:
        for syncing in directories:
            group.start(syncing.run())

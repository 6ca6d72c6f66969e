"""What a broker does beside its clients' requests: sync, checkpoint, expire, remove.

What is expired of the logs themselves is `broker/partitions/retention`'s.

Data reaches the disk when the system writes it back; what is synced here bounds how much a
start after a crash has to scan. A log is due when it has begun a new segment since its last sync,
or when its flush settings say so; `broker/partitions/syncing` does it.
"""

import asyncio
import logging

from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.retention import Retention
from penstock.log.partition_log import PartitionLog
from penstock.model.events import DISK_NEARLY_FULL
from penstock.model.settings.broker import BrokerSettings
from penstock.replication.replica import Replica
from penstock.world.errors import DiskError
from penstock.world.event_log import tell
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

SYNC_CHECK_MS = 1000
SYNC_CHECK_MS_MIN = 50  # however small flush.ms is
REMOVAL_CHECK_MS = 1000
NEARLY_FULL_PERCENT = 80
TOLD_AGAIN_PERCENT = 5


class Housekeeping:
    def __init__(
        self,
        *,
        partitions: Partitions,
        settings: BrokerSettings,
        world: World,
    ) -> None:
        self._partitions = partitions
        self._settings = settings
        self._world = world
        self._retention = Retention(partitions=partitions, settings=settings, world=world)
        self._told_percent: dict[str, int] = {}  # by directory, when it was last told
        self._synced_ms: dict[Replica, int] = {}  # when each was last asked to be synced

    def start(self, group: TaskGroup) -> None:
        group.start(self._keep_synced(), name="find logs to sync")
        group.start(self._keep_checkpoints(), name="checkpoints")
        group.start(self._keep_watermarks(), name="high watermarks")
        group.start(self._keep_producers_few(), name="expire producers")
        group.start(self._retention.keep(), name="retention")
        group.start(self._remove_deleted(), name="remove deleted")

    async def _keep_synced(self) -> None:
        while True:
            check_ms = self.want_due()
            await asyncio.sleep(check_ms / 1000)

    def want_due(self) -> int:
        """Has every log synced that is due; in how many milliseconds to look again."""
        now_ms = self._world.clock.monotonic_ms()
        synced_ms: dict[Replica, int] = {}
        check_ms = SYNC_CHECK_MS
        for partition in self._partitions:
            synced_ms[partition] = self._synced_ms.get(partition, now_ms)
            if is_due(partition.log, unsynced_ms=now_ms - synced_ms[partition]):
                self._partitions.want_sync(partition)
                synced_ms[partition] = now_ms
            check_ms = min(check_ms, partition.settings.flush_ms)
        self._synced_ms = synced_ms
        return max(check_ms, SYNC_CHECK_MS_MIN)

    async def _keep_checkpoints(self) -> None:
        interval_ms = self._settings.log_flush_offset_checkpoint_interval_ms
        while True:
            await asyncio.sleep(max(interval_ms, SYNC_CHECK_MS) / 1000)
            self._partitions.directories.save_checkpoints()
            self.warn_of_full_disks()

    def warn_of_full_disks(self) -> None:
        """Tells of a directory whose disk is nearly full, and again when it has become fuller."""
        if not logger.isEnabledFor(DISK_NEARLY_FULL.level):
            return
        disk = self._world.disk
        for directory in self._partitions.directories:
            path = directory.path
            try:
                free_bytes, total_bytes = disk.free_bytes(path), disk.total_bytes(path)
            except DiskError:
                continue  # whoever writes there finds out what is wrong
            used_percent = used_percent_of(free_bytes=free_bytes, total_bytes=total_bytes)
            if used_percent < NEARLY_FULL_PERCENT:
                self._told_percent.pop(path, None)
            elif used_percent >= self._told_percent.get(path, 0) + TOLD_AGAIN_PERCENT:
                self._told_percent[path] = used_percent
                tell(
                    logger,
                    DISK_NEARLY_FULL,
                    directory=path,
                    used_percent=used_percent,
                    free_bytes=free_bytes,
                    total_bytes=total_bytes,
                )

    async def _keep_watermarks(self) -> None:
        interval_ms = self._settings.replication.replica_high_watermark_checkpoint_interval_ms
        while True:
            await asyncio.sleep(max(interval_ms, SYNC_CHECK_MS) / 1000)
            self.save_watermarks()

    def save_watermarks(self) -> None:
        self._partitions.note_watermarks()
        self._partitions.directories.raise_watermarks()

    async def _keep_producers_few(self) -> None:
        interval_ms = self._settings.producer_id_expiration_check_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            now_ms = self._world.clock.now_ms()
            for log in self._partitions.directories.logs.values():
                log.expire_producers(now_ms)

    async def _remove_deleted(self) -> None:
        while True:
            await self.remove_due()
            await asyncio.sleep(REMOVAL_CHECK_MS / 1000)

    async def remove_due(self) -> None:
        """Removes deleted segments and partitions whose delay is over."""
        now_ms = self._world.clock.monotonic_ms()
        paths = self._partitions.directories.take_removable(now_ms=now_ms)
        if not paths:
            return
        try:
            await self._world.disk.remove_trees(paths)
        except DiskError as error:
            # They have names that nobody reads; the next start tries again.
            logger.error("removed=false paths=%d reason=%s", len(paths), error)


def used_percent_of(*, free_bytes: int, total_bytes: int) -> int:
    """Rounded down: a disk with any room is not called full."""
    return 0 if total_bytes <= 0 else (total_bytes - free_bytes) * 100 // total_bytes


def is_due(log: PartitionLog, *, unsynced_ms: int) -> bool:
    """Whether the log has begun a new segment since its last sync, or its settings say so."""
    unsynced_records = log.end_offset - log.recovery_point
    if unsynced_records == 0 or log.is_closed:
        return False
    has_rolled = log.recovery_point < log.segments[-1].base_offset
    flush_ms = log.settings.flush_ms
    return has_rolled or unsynced_ms >= flush_ms or unsynced_records >= log.settings.flush_messages

"""What a broker does beside its clients' requests: sync, checkpoint, expire.

Data reaches the platter when the system writes it back; what is synced here bounds how much a
start after a crash has to scan. A log is due when it has begun a new segment since its last sync,
or when its flush settings say so. A failed sync is final: it ends the node.
"""

import asyncio

from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import METADATA_TOPIC
from penstock.model.settings.broker import BrokerSettings
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

SYNC_CHECK_MS = 1000


class Housekeeping:
    def __init__(self, *, directory: LogDirectory, settings: BrokerSettings, world: World) -> None:
        self._directory = directory
        self._settings = settings
        self._world = world
        self._synced_ms: dict[PartitionLog, int] = {}

    def start(self, group: TaskGroup) -> None:
        group.start(self._keep_synced(), name="sync logs")
        group.start(self._keep_checkpoints(), name="checkpoints")
        group.start(self._keep_producers_few(), name="expire producers")

    async def _keep_synced(self) -> None:
        while True:
            await asyncio.sleep(SYNC_CHECK_MS / 1000)
            await self.sync_due()

    async def sync_due(self) -> None:
        """Syncs every log that is due, one after the other."""
        for log in list(self._directory.logs.values()):
            now_ms = self._world.clock.monotonic_ms()
            unsynced_since_ms = self._synced_ms.setdefault(log, now_ms)
            if is_due(log, unsynced_ms=now_ms - unsynced_since_ms):
                await self._sync(log)
                self._synced_ms[log] = self._world.clock.monotonic_ms()
        known = set(self._directory.logs.values())
        self._synced_ms = {log: at for log, at in self._synced_ms.items() if log in known}

    async def _sync(self, log: PartitionLog) -> None:
        # One step up to the await: the files are those that hold the log up to `end_offset`.
        end_offset = log.end_offset
        files = log.unsynced_files()
        await self._world.disk.sync(files)
        if not log.is_closed:
            log.mark_synced(end_offset)

    async def _keep_checkpoints(self) -> None:
        interval_ms = self._settings.log_flush_offset_checkpoint_interval_ms
        while True:
            await asyncio.sleep(max(interval_ms, SYNC_CHECK_MS) / 1000)
            self._directory.save_checkpoints()

    async def _keep_producers_few(self) -> None:
        interval_ms = self._settings.producer_id_expiration_check_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            now_ms = self._world.clock.now_ms()
            for log in self._directory.logs.values():
                log.expire_producers(now_ms)


def is_due(log: PartitionLog, *, unsynced_ms: int) -> bool:
    """The metadata log never is: the controller syncs it before each answer."""
    unsynced_records = log.end_offset - log.recovery_point
    if unsynced_records == 0 or log.is_closed or log.partition.topic == METADATA_TOPIC:
        return False
    has_rolled = log.recovery_point < log.segments[-1].base_offset
    flush_ms = log.settings.flush_ms
    return has_rolled or unsynced_ms >= flush_ms or unsynced_records >= log.settings.flush_messages

"""Compaction, as a broker runs it: the filthiest log first, one at a time, off the loop.

The work is done elsewhere (`Offload`); here it is chosen, and the loop takes a fraction of a
millisecond for each step of a swap. What goes wrong with one log is logged once; that log is left
alone, and the others go on.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from penstock.log.compaction.cleaner import Finished, PassItem, clean_log
from penstock.log.compaction.owner import take_up
from penstock.log.compaction.plan import (
    COMPACT,
    CleanerLimits,
    CleaningPass,
    Dirt,
    dirt_of,
    plan_pass,
)
from penstock.log.errors import CorruptData
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.limit import KIB
from penstock.model.settings.broker import BrokerSettings
from penstock.replication.replica import Replica
from penstock.world.errors import DiskError, OffloadError
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

CHECK_MS_MIN = 100
RETRY_MS = 600_000  # after what may pass by itself: a full disk, a helper that was killed
MEMORY_BYTES_MIN = 64 * KIB
LOAD_FACTORS = (0.1, 0.99)  # a table that is full is searched for ever


class Cleaning:
    def __init__(
        self,
        *,
        partitions: Iterable[Replica],
        settings: Callable[[], BrokerSettings],
        world: World,
        is_moving: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        """`is_moving` tells of a partition that is moved to another directory, which is left alone
        until it is there.
        """
        self._partitions = partitions
        self._is_moving = is_moving
        self._cleaned_now: TopicPartition | None = None
        self._settings = settings
        self._world = world
        # Logs to leave alone, and until when; None: as long as this node runs.
        self._left_alone: dict[tuple[TopicPartition, TopicId], int | None] = {}
        self.dirt: dict[TopicPartition, Dirt] = {}  # as of the last look at all logs
        self.left_alone_count = 0  # the same

    def is_compacting(self, name: TopicPartition) -> bool:
        """Whether a pass over the partition's log is under way."""
        return self._cleaned_now == name

    def start(self, group: TaskGroup) -> None:
        if self._settings().log_cleaner_enable:
            group.start(self._keep_compact(), name="compaction")

    async def _keep_compact(self) -> None:
        while True:
            await asyncio.sleep(max(self._settings().log_cleaner_backoff_ms, CHECK_MS_MIN) / 1000)
            while await self.clean_filthiest():
                pass

    async def clean_filthiest(self) -> bool:
        """Runs one pass over the log that needs it most; False when none does.

        False too when the pass got no further: trying again at once would get no further either.
        """
        found = self._filthiest()
        if found is None:
            return False
        log, dirt = found
        wanted = plan_pass(
            log, dirt, limits_of(self._settings()), now_ms=self._world.clock.now_ms()
        )
        cleaned_before = log.cleaned_offset
        self._cleaned_now = log.partition
        try:
            await self._clean(log, wanted)
        except (DiskError, OffloadError, CorruptData) as error:
            self._leave_alone(log, error)
            return True  # to the others
        finally:
            self._cleaned_now = None
        return log.cleaned_offset != cleaned_before

    def _filthiest(self) -> tuple[PartitionLog, Dirt] | None:
        now_ms = self._world.clock.now_ms()
        worst: tuple[PartitionLog, Dirt] | None = None
        seen: dict[TopicPartition, Dirt] = {}
        left_alone = 0
        for partition in self._partitions:
            log = partition.log
            if COMPACT not in log.settings.cleanup_policy or log.is_closed:
                continue
            if self._is_left_alone(log):
                left_alone += 1
                continue
            if self._is_moving(log.partition):
                continue
            try:
                dirt = dirt_of(
                    log,
                    cleaned_offset=log.cleaned_offset,
                    stable_offset=partition.last_stable_offset,
                    now_ms=now_ms,
                )
            except (DiskError, CorruptData) as error:
                self._leave_alone(log, error)
                left_alone += 1
                continue
            seen[log.partition] = dirt
            if dirt.is_worth_it(log.settings) and (worst is None or dirt.ratio > worst[1].ratio):
                worst = log, dirt
        self.dirt, self.left_alone_count = seen, left_alone
        return worst

    async def _clean(self, log: PartitionLog, wanted: CleaningPass) -> None:
        started_ms = self._world.clock.monotonic_ms()
        steps: AsyncGenerator[PassItem, None] = self._world.offload.run_on_disk(clean_log, wanted)
        async with aclosing(steps) as items:
            async for item in items:
                # The log may have been cut, deleted or closed while others had their turn.
                if not take_up(log, item):
                    logger.info("compaction partition=%s given_up=log changed", log.partition)
                    return
                if isinstance(item, Finished):
                    log.cleaned_offset = item.end_offset
                    logger.info(
                        "compaction partition=%s from_offset=%d until_offset=%d keys=%d "
                        "bytes_before=%d bytes_after=%d took_ms=%d",
                        log.partition, wanted.first_dirty_offset, item.end_offset, item.keys,
                        item.bytes_before, item.bytes_after,
                        self._world.clock.monotonic_ms() - started_ms,
                    )  # fmt: skip

    def _is_left_alone(self, log: PartitionLog) -> bool:
        name = log.partition, log.topic_id
        if name not in self._left_alone:
            return False
        until_ms = self._left_alone[name]
        if until_ms is None or until_ms > self._world.clock.monotonic_ms():
            return True
        del self._left_alone[name]
        return False

    def _leave_alone(self, log: PartitionLog, error: Exception) -> None:
        passes = isinstance(error, OffloadError) or (isinstance(error, DiskError) and error.full)
        until_ms = self._world.clock.monotonic_ms() + RETRY_MS if passes else None
        self._left_alone[log.partition, log.topic_id] = until_ms
        logger.error(
            "compaction partition=%s state=uncleanable retry_ms=%s reason=%s",
            log.partition, RETRY_MS if passes else "never", error,
        )  # fmt: skip


def limits_of(settings: BrokerSettings) -> CleanerLimits:
    low, high = LOAD_FACTORS
    return CleanerLimits(
        memory_bytes=max(settings.log_cleaner_dedupe_buffer_size, MEMORY_BYTES_MIN),
        load_factor=min(max(settings.log_cleaner_io_buffer_load_factor, low), high),
        bytes_per_second=max(settings.log_cleaner_io_max_bytes_per_second, 1.0),
    )

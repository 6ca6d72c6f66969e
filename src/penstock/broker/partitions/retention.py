"""Retention, as a broker carries it out: in rounds, one every `log.retention.check.interval.ms`.

    look      at every partition, in turns; a log that loses its active segment gets a new one
    decide    in one step: look again, move the starts of all, one write a directory
    drop      segment by segment, in turns; the files go after `file.delete.delay.ms`, off the loop

What expires is decided in `log/retention`. A start that has moved is on disk before a segment goes;
a disk that is full has no room to note it, and is what retention is for: there the names of the
files are made to tell it. Start reading at `Retention.expire`.
"""

import asyncio
import logging
from collections.abc import Iterable

from penstock.broker.partitions.partitions import Partitions
from penstock.log.errors import CorruptData
from penstock.log.retention import Expired, expires, find_expired
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.broker import BrokerSettings
from penstock.replication.replica import Replica
from penstock.world.errors import DiskError
from penstock.world.ports import World

logger = logging.getLogger(__name__)

PARTITIONS_PER_TURN = 50


class Retention:
    def __init__(self, *, partitions: Partitions, settings: BrokerSettings, world: World) -> None:
        self._partitions = partitions
        self._settings = settings
        self._world = world
        # What each partition was told of before: a trouble by its text, or a segment's offset.
        self._logged: dict[tuple[TopicPartition, TopicId], str | Offset] = {}

    async def keep(self) -> None:
        """Round after round, until cancelled."""
        interval_ms = self._settings.log_retention_check_interval_ms
        await asyncio.sleep(min(interval_ms, self._settings.log_initial_task_delay_ms) / 1000)
        while True:
            await self.expire()
            await asyncio.sleep(interval_ms / 1000)

    async def expire(self) -> None:
        """One round."""
        now_ms = self._world.clock.now_ms()
        self._forget_deleted()
        losing: list[Replica] = []
        for count, partition in enumerate(list(self._partitions), 1):
            if self._make_ready(partition, now_ms):
                losing.append(partition)
                await asyncio.sleep(0)  # it may have begun a segment
            elif count % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        for partition, expired in self._move_starts(losing, now_ms).items():
            await self._drop(partition, expired, now_ms)

    def _forget_deleted(self) -> None:
        known = {(partition.name, partition.topic_id) for partition in self._partitions}
        self._logged = {which: logged for which, logged in self._logged.items() if which in known}

    def _make_ready(self, partition: Replica, now_ms: int) -> bool:
        """Whether something of the partition is to go; then none of that is active any more."""
        expired = self._find(partition, now_ms)
        if expired is None:
            self._log_future_timestamp(partition, now_ms)
            return False
        if expired.start_offset == partition.log.end_offset:
            try:
                partition.log.roll()
            except DiskError as error:
                self._failed(partition, error)
                # Without room for a new segment, those before the active one can go.
                return error.full
        return True

    def _move_starts(self, losing: Iterable[Replica], now_ms: int) -> dict[Replica, Expired]:
        """In one step: settings, high watermarks and the partitions themselves may have changed."""
        found = {one: expired for one in losing if (expired := self._find(one, now_ms)) is not None}
        failed = self._partitions.directories.move_starts(
            {partition.name: expired.start_offset for partition, expired in found.items()}
        )
        for partition, expired in found.items():
            if (error := failed.get(partition.name)) is not None:
                self._failed(partition, error)
                continue
            logger.info(
                "retention partition=%s start_offset=%d surplus_segments=%d old_segments=%d "
                "bytes=%d",
                partition.name, expired.start_offset, expired.surplus_segments,
                expired.old_segments, expired.size_bytes,
            )  # fmt: skip
            partition.start_moved()
        return found

    async def _drop(self, partition: Replica, expired: Expired, now_ms: int) -> None:
        """Where the start could not be noted, the segments' names tell it, one after the other."""
        log = partition.log
        is_noted = log.start_offset >= expired.start_offset
        try:
            while not log.is_closed:
                if is_noted:
                    more = log.drop_oldest()
                elif (found := self._find(partition, now_ms)) is not None:
                    more = log.advance_by_name(found.start_offset)
                else:
                    return
                await asyncio.sleep(0)
                if not more:
                    return
        except DiskError as error:
            self._failed(partition, error)

    def _find(self, partition: Replica, now_ms: int) -> Expired | None:
        log = partition.log
        if partition.has_ended or log.is_closed or not expires(log.settings):
            return None
        try:
            return find_expired(
                log.segments,
                start_offset=log.start_offset,
                end_offset=log.end_offset,
                high_watermark=partition.high_watermark,
                settings=log.settings,
                now_ms=now_ms,
            )
        except (DiskError, CorruptData) as error:
            self._failed(partition, error)
            return None

    def _failed(self, partition: Replica, error: DiskError | CorruptData) -> None:
        """Told once; a disk that failed otherwise than by being full is offline from now on."""
        if self._is_news(partition, str(error)):
            logger.error("retention partition=%s kept=true reason=%s", partition.name, error)
        if isinstance(error, DiskError) and not error.full:
            self._partitions.take_offline(partition.log.directory.rpartition("/")[0], error)

    def _log_future_timestamp(self, partition: Replica, now_ms: int) -> None:
        """A timestamp far ahead keeps a segment, and all behind it, for as long: told once each."""
        log = partition.log
        if partition.has_ended or len(log.segments) == 1 or log.settings.retention_ms < 0:
            return
        oldest = log.segments[0]
        if not expires(log.settings) or oldest.largest_timestamp[0] <= now_ms:
            return
        if self._is_news(partition, oldest.base_offset):
            logger.warning(
                "retention partition=%s base_offset=%d kept=true largest_timestamp=%d "
                "reason=timestamp in the future",
                partition.name, oldest.base_offset, oldest.largest_timestamp[0],
            )  # fmt: skip

    def _is_news(self, partition: Replica, what: str | Offset) -> bool:
        name = partition.name, partition.topic_id
        is_news = self._logged.get(name) != what
        self._logged[name] = what
        return is_news

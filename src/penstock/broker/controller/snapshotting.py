"""Makes snapshots of the metadata while the controller runs, and trims the log after each.

The image is immutable, so a snapshot is written in small steps, and everything else goes on between
them. A crash at any point leaves the log as it was, or a whole snapshot (`log/metadata_snapshots`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from penstock.broker.controller.metadata_journal import Entry, MetadataJournal
from penstock.log.metadata_snapshots import SnapshotPart, SnapshotWriter
from penstock.metadata.image.image import Image
from penstock.metadata.records import MetadataRecord, encode_record
from penstock.metadata.snapshot import (
    Retention,
    SnapshotBounds,
    image_records,
    snapshot_due,
)
from penstock.model.limit import SNAPSHOT_BATCH_RECORDS, SNAPSHOT_LOG_BYTES_MIN
from penstock.model.offset import Offset, SnapshotId
from penstock.model.settings.broker import BrokerSettings
from penstock.raft.voters import VoterSet
from penstock.raft.wire_form.voters import version_record, voters_record
from penstock.records.record import Record
from penstock.world.errors import DiskError
from penstock.world.ports import World

logger = logging.getLogger(__name__)

SYNC_WAIT_S = 0.1  # a majority of others was faster than this node's own disk


class Snapshotting:
    """`note` what was committed; keep `run` running."""

    def __init__(
        self,
        *,
        journal: MetadataJournal,
        image: Callable[[], Image],
        trimmed: Callable[[SnapshotId], None],
        synced_offset: Callable[[], Offset],
        world: World,
        settings: BrokerSettings,
        voters_before: Callable[[Offset], VoterSet],
    ) -> None:
        """`voters_before` are those in force behind the records below an offset."""
        self._voters_before = voters_before
        self._journal = journal
        self._image = image
        self._trimmed = trimmed
        self._synced_offset = synced_offset
        self._world = world
        self._bounds = SnapshotBounds(
            log_bytes_max=settings.metadata_log_max_record_bytes_between_snapshots,
            interval_ms_max=settings.metadata_log_max_snapshot_interval_ms,
        )
        self._retention = Retention(
            size_bytes_max=settings.metadata_max_retention_bytes,
            age_ms_max=settings.metadata_max_retention_ms,
        )
        self._log_bytes = 0  # committed since the last snapshot
        self._retry_log_bytes = 0  # after a failure: not before the log is as large as this
        self._snapshot_bytes = 0
        self._timestamp_ms = 0  # of the last record that was committed
        self._since_ms = world.clock.monotonic_ms()
        self._noted = asyncio.Event()
        self._installs = 0  # snapshots of the leader that took the place of the log

    def opened(self) -> None:
        """The journal was recovered: what the latest snapshot measures is known."""
        latest = self._journal.snapshots.latest
        self._snapshot_bytes = 0 if latest is None else self._journal.snapshots.size_bytes(latest)

    def note(self, entries: Sequence[Entry]) -> None:
        """These were committed, and the image shows them."""
        self._log_bytes += sum(entry.size_bytes for entry in entries)
        self._timestamp_ms = entries[-1].timestamp_ms
        self._noted.set()

    async def run(self) -> None:
        """Makes snapshots until cancelled. A disk that is full is tried again later; any other
        failure of the disk ends it, and with it the node.
        """
        # What a crash or a smaller retention has left is not kept until the next snapshot.
        await self._unless_full(self._trim)
        while True:
            self._noted.clear()  # what is committed from here on is looked at in the next round
            if self._is_due():
                await self._unless_full(self._make)
            await self._next_occasion()

    async def _unless_full(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except DiskError as error:
            if not error.full:
                raise
            self._retry_log_bytes = self._log_bytes + SNAPSHOT_LOG_BYTES_MIN
            logger.warning("metadata snapshot made=false reason=%s", error)

    async def _trim(self) -> None:
        """What is committed may not be durable here yet, if a majority of others has it: then the
        log stays until the next occasion.
        """
        latest = self._journal.latest_snapshot
        if latest is None or latest.offset > self._synced_offset():
            return
        self._journal.trim(self._retention, now_ms=self._world.clock.now_ms())
        self._trimmed(latest)

    def installed(self, snapshot_id: SnapshotId) -> None:
        """A snapshot of the leader took the place of the log."""
        self._snapshot_bytes = self._journal.snapshots.size_bytes(snapshot_id)
        self._timestamp_ms = self._journal.snapshots.timestamp_ms(snapshot_id)
        self._log_bytes = self._retry_log_bytes = 0
        self._installs += 1
        self._since_ms = self._world.clock.monotonic_ms()

    def _is_due(self) -> bool:
        if self._image().offset > self._synced_offset():
            return False
        return self._log_bytes >= self._retry_log_bytes and snapshot_due(
            self._bounds,
            log_bytes=self._log_bytes,
            snapshot_bytes=self._snapshot_bytes,
            elapsed_ms=self._world.clock.monotonic_ms() - self._since_ms,
        )

    async def _next_occasion(self) -> None:
        """Returns when something was committed, or the interval between snapshots has passed."""
        wait_s: float | None = None
        if self._log_bytes and self._bounds.interval_ms_max:
            until_ms = self._since_ms + self._bounds.interval_ms_max
            wait_s = max(0, until_ms - self._world.clock.monotonic_ms()) / 1000
            if wait_s == 0:  # it is due, and could not be made: wait for the next change
                wait_s = None
        if self._image().offset > self._synced_offset():
            wait_s = SYNC_WAIT_S
        try:
            async with asyncio.timeout(wait_s):
                await self._noted.wait()
        except TimeoutError:
            pass

    async def _make(self) -> None:
        image, log_bytes, timestamp_ms = self._image(), self._log_bytes, self._timestamp_ms
        snapshot_id = SnapshotId(image.offset, image.epoch)
        journal, installs = self._journal, self._installs
        part = journal.begin_snapshot(snapshot_id)
        try:
            await self._write(part, image, timestamp_ms)
            if self._installs != installs:  # a later snapshot has come meanwhile
                return journal.snapshots.drop(part)
            journal.snapshots.publish(part)
        except BaseException as error:
            if isinstance(error, DiskError):
                with suppress(DiskError):  # the first error is the one to be told
                    journal.snapshots.drop(part)
            part.file.close()
            raise
        self._snapshot_bytes = journal.snapshots.size_bytes(snapshot_id)
        self._log_bytes -= log_bytes
        self._retry_log_bytes = 0
        self._since_ms = self._world.clock.monotonic_ms()
        await self._trim()
        logger.info(
            "metadata snapshot=%s size_bytes=%d log_start=%d",
            snapshot_id, self._snapshot_bytes, journal.start_offset,
        )  # fmt: skip

    async def _write(self, part: SnapshotPart, image: Image, timestamp_ms: int) -> None:
        voters: tuple[Record, ...] = ()
        in_force = self._voters_before(image.offset)
        if in_force.keys and not in_force.is_fixed:  # what named them so far may be removed
            voters = (
                version_record(timestamp_ms=timestamp_ms),
                voters_record(in_force, timestamp_ms=timestamp_ms),
            )
        writer = SnapshotWriter(part, timestamp_ms=timestamp_ms, quorum=voters)
        for values in _chunks(image_records(image)):
            writer.append(values)
            await asyncio.sleep(0)
        writer.finish()
        await self._world.disk.sync([part.file])


def _chunks(records: Iterator[MetadataRecord]) -> Iterator[list[bytes]]:
    while chunk := [encode_record(record) for record in islice(records, SNAPSHOT_BATCH_RECORDS)]:
        yield chunk

"""Syncs of very many logs at once live with the descriptors that there are."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.broker.partitions import directory_moves, syncing
from penstock.log.durability import Durability
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.world.disk import RealDisk
from penstock.world.errors import DiskError
from penstock.world.ports import File
from rig.produced import NOW_MS, produced
from rig.services import Broker

PARTITIONS = 150
FEW = 60


@contextmanager
def few_descriptors(count: int = FEW) -> Iterator[None]:
    """This process may open so many more files."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    are_open = len(os.listdir("/proc/self/fd")) - 1  # that of the directory is closed again
    resource.setrlimit(resource.RLIMIT_NOFILE, (are_open + count, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk(open_files_max=8)


@pytest.fixture
def broker(disk: RealDisk, tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path, disk=disk, directories=("only",))
    one.create_topic("t", PARTITIONS)
    for index in range(PARTITIONS):
        one.partition("t", index).append(produced(), all_acks=False, now_ms=NOW_MS)
    yield one
    one.directories.abandon()


def want_all(broker: Broker) -> None:
    for index in range(PARTITIONS):
        broker.partitions.want_sync(broker.partition("t", index))


def unsynced(broker: Broker) -> int:
    points = [broker.partition("t", index).log.recovery_point for index in range(PARTITIONS)]
    return points.count(0)


def test_a_round_opens_no_more_than_it_may(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "ROUND_FILES_MAX", FEW // 2)
    want_all(broker)
    with few_descriptors():
        asyncio.run(broker.partitions.sync_wanted())
    assert unsynced(broker) == 0


def test_a_want_of_descriptors_is_told_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(syncing, "RETRY_SECONDS", 0.01)
    refused, enough = 0, asyncio.Event()

    def begin_sync(self: Durability, active: Segment, *, end_offset: Offset) -> list[File]:
        nonlocal refused
        refused += 1
        if refused == 5 * PARTITIONS:
            enough.set()
        raise DiskError("a file", "Too many open files", full=True)

    async def scenario() -> None:
        syncs = asyncio.create_task(broker.partitions.keep_syncing())
        async with asyncio.timeout(60):
            await enough.wait()
        syncs.cancel()
        await asyncio.wait([syncs])

    monkeypatch.setattr(Durability, "begin_sync", begin_sync)
    want_all(broker)
    asyncio.run(scenario())
    assert len(caplog.records) == 1


def test_a_want_of_descriptors_is_no_failed_disk(
    broker: Broker, disk: RealDisk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor does a round that failed keep what it has opened."""
    monkeypatch.setattr(syncing, "RETRY_SECONDS", 0.01)

    async def scenario() -> None:
        held = [disk.open(str(tmp_path / f"held-{number}"), create=True) for number in range(8)]
        for file in held:
            file.pin()  # none gives way
        with few_descriptors(2):
            await broker.partitions.sync_wanted()
            disk.open(str(tmp_path / "another"), create=True).close()
        assert unsynced(broker) > 0
        for file in held:
            file.unpin()
        assert not broker.directories.failed
        async with asyncio.timeout(60):
            while unsynced(broker):
                await asyncio.sleep(0.01)
                await broker.partitions.sync_wanted()

    want_all(broker)
    asyncio.run(scenario())


def log_of_many_segments(broker: Broker) -> PartitionLog:
    log = broker.partition("t", 0).log
    for _ in range(FEW):
        broker.partition("t", 0).append(produced(), all_acks=False, now_ms=NOW_MS)
        log.roll()
    return log


def test_a_log_with_more_files_than_may_be_open_is_synced(broker: Broker) -> None:
    log = log_of_many_segments(broker)
    broker.partitions.want_sync(broker.partition("t", 0))
    with few_descriptors():
        asyncio.run(broker.partitions.sync_wanted())
    assert log.recovery_point == log.end_offset


def test_segments_that_are_deleted_before_their_turn_fail_no_sync(broker: Broker) -> None:
    log = log_of_many_segments(broker)

    async def scenario() -> None:
        broker.partitions.want_sync(broker.partition("t", 0))
        syncs = asyncio.create_task(broker.partitions.sync_wanted())
        await asyncio.sleep(0)
        log.advance_start(log.end_offset)
        await syncs

    asyncio.run(scenario())
    assert not broker.directories.failed
    assert log.recovery_point == log.end_offset


def test_a_partition_that_is_deleted_before_the_turn_of_its_files_fails_no_sync(
    broker: Broker,
) -> None:
    log = log_of_many_segments(broker)

    async def scenario() -> None:
        broker.partitions.want_sync(broker.partition("t", 0))
        syncs = asyncio.create_task(broker.partitions.sync_wanted())
        await asyncio.sleep(0)
        log.retire()
        os.rename(log.directory, f"{log.directory}.gone")
        await syncs

    asyncio.run(scenario())
    assert not broker.directories.failed


def test_a_move_that_is_ended_before_the_turn_of_its_files_fails_no_directory(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TopicPartition("t", 0)
    broker = Broker(tmp_path, disk=disk, directories=("a", "b"))
    broker.create_topic("t")
    for _ in range(FEW):
        broker.partition("t").append(produced(), all_acks=False, now_ms=NOW_MS)
    home = broker.directories.home_of(name)
    assert home is not None
    [other] = {str(tmp_path / "a"), str(tmp_path / "b")} - {home}
    monkeypatch.setattr(directory_moves, "COPY_BYTES_MAX", 1)  # a batch
    monkeypatch.setattr(directory_moves, "SYNC_BYTES", broker.partition("t").log.size_bytes)

    async def scenario() -> None:
        broker.moves.move(name, other)
        future = broker.directories.future_of(name)
        assert future is not None
        for _ in range(FEW):
            future.roll()
            await broker.moves._advance(name)
        sync = asyncio.create_task(broker.moves._advance(name))
        await asyncio.sleep(0)
        broker.moves.move(name, home)
        assert future.is_closed
        assert not sync.done()
        await sync

    asyncio.run(scenario())
    assert not broker.directories.failed
    broker.directories.abandon()

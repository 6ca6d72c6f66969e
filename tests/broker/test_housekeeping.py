"""What a broker does beside its clients' requests."""

import asyncio
from dataclasses import replace
from pathlib import Path

from penstock.broker.housekeeping import Housekeeping, is_due
from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import METADATA_TOPIC, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.world.real import real_world

WORLD = real_world(inline=True)
NOW_MS = 1_700_000_000_000
A_DAY_MS = 86_400_000


def opened(tmp_path: Path, name: str = "orders") -> tuple[LogDirectory, PartitionLog]:
    directory = LogDirectory.open(disk=WORLD.disk, path=str(tmp_path))
    log = directory.open_log(
        TopicPartition(name, 0), TopicId(bytes(range(16))), TopicSettings(), now_ms=NOW_MS
    )
    return directory, log


def append(log: PartitionLog, count: int = 1) -> None:
    records = [Record(None, b"value", timestamp_ms=NOW_MS) for _ in range(count)]
    batch = build_batch(records, base_offset=log.end_offset, leader_epoch=LeaderEpoch(0))
    log.append([BatchView(memoryview(batch))], now_ms=NOW_MS)


def housekeeping(directory: LogDirectory) -> Housekeeping:
    return Housekeeping(directory=directory, settings=BrokerSettings(), world=WORLD)


def test_log_is_synced_once_it_has_rolled(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    append(log)
    asyncio.run(housekeeping(directory).sync_due())
    assert log.recovery_point == 0
    log.roll()
    append(log)
    asyncio.run(housekeeping(directory).sync_due())
    assert log.recovery_point == 2
    directory.close()


def test_what_was_synced_and_noted_is_not_scanned_after_a_crash(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    append(log, count=100)
    log.roll()
    append(log)
    asyncio.run(housekeeping(directory).sync_due())
    directory.save_checkpoints()
    directory.abandon()
    directory, log = opened(tmp_path)
    assert log.end_offset == 101
    assert log.recovery.segments_scanned == 1  # the active one
    directory.close()


def test_flush_settings_make_a_log_due(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    append(log, count=10)
    assert not is_due(log, unsynced_ms=A_DAY_MS)
    log.reconfigure(replace(log.settings, flush_messages=10))
    assert is_due(log, unsynced_ms=0)
    log.reconfigure(replace(log.settings, flush_messages=11, flush_ms=500))
    assert not is_due(log, unsynced_ms=499)
    assert is_due(log, unsynced_ms=500)
    log.sync()
    assert not is_due(log, unsynced_ms=A_DAY_MS)
    directory.close()


def test_metadata_log_is_left_to_the_controller(tmp_path: Path) -> None:
    directory, log = opened(tmp_path, METADATA_TOPIC)
    append(log)
    log.roll()
    append(log)
    assert not is_due(log, unsynced_ms=A_DAY_MS)
    directory.close()


def test_log_deleted_during_its_sync_does_no_harm(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    append(log)
    log.roll()
    append(log)

    async def scenario() -> None:
        syncing = asyncio.create_task(housekeeping(directory).sync_due())
        await asyncio.sleep(0)
        directory.delete(log)
        await syncing

    asyncio.run(scenario())
    directory.close()

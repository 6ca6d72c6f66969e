"""What a broker does beside its clients' requests."""

import asyncio
from dataclasses import replace
from pathlib import Path

from penstock.broker.partitions.housekeeping import SYNC_CHECK_MS, Housekeeping, is_due
from penstock.log.partition_log import PartitionLog
from rig.data_requests import produce
from rig.produced import produced
from rig.services import Broker

A_DAY_MS = 86_400_000


def housekeeping(broker: Broker) -> Housekeeping:
    return Housekeeping(
        partitions=broker.partitions,
        settings=broker.settings,
        world=broker.world,
    )


def sync_due(broker: Broker) -> None:
    housekeeping(broker).want_due()
    asyncio.run(broker.partitions.sync_wanted())


def log_of(broker: Broker, **config: str) -> PartitionLog:
    broker.create_topic("t", config=config)
    return broker.partition("t").log


def test_log_is_synced_once_it_has_rolled(broker: Broker) -> None:
    log = log_of(broker)
    produce(broker, "t", produced())
    sync_due(broker)
    assert log.recovery_point == 0
    log.roll()
    produce(broker, "t", produced())
    sync_due(broker)
    assert log.recovery_point == 2


def test_what_was_synced_and_noted_is_not_scanned_after_a_crash(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    log = log_of(first)
    produce(first, "t", produced(100))
    log.roll()
    produce(first, "t", produced())
    sync_due(first)
    first.directory.save_checkpoints()
    first.directory.abandon()
    second = Broker(tmp_path)
    log = log_of(second)
    assert log.end_offset == 101
    assert log.recovery.segments_scanned == 1  # the active one
    second.close()


def test_flush_settings_make_a_log_due(broker: Broker) -> None:
    log = log_of(broker)
    produce(broker, "t", produced(10))
    assert not is_due(log, unsynced_ms=A_DAY_MS)
    log.reconfigure(replace(log.settings, flush_messages=10))
    assert is_due(log, unsynced_ms=0)
    log.reconfigure(replace(log.settings, flush_messages=11, flush_ms=500))
    assert not is_due(log, unsynced_ms=499)
    assert is_due(log, unsynced_ms=500)
    log.sync()
    assert not is_due(log, unsynced_ms=A_DAY_MS)


def test_a_short_flush_time_makes_for_frequent_looks(broker: Broker) -> None:
    broker.create_topic("patient")
    assert housekeeping(broker).want_due() == SYNC_CHECK_MS
    broker.create_topic("t", config={"flush.ms": "200"})
    assert housekeeping(broker).want_due() == 200


def test_log_deleted_during_its_sync_does_no_harm(broker: Broker) -> None:
    log = log_of(broker)
    produce(broker, "t", produced())
    log.roll()
    produce(broker, "t", produced())

    async def scenario() -> None:
        housekeeping(broker).want_due()
        syncing = asyncio.create_task(broker.partitions.sync_wanted())
        await asyncio.sleep(0)
        broker.delete_topic("t")
        await syncing

    asyncio.run(scenario())
    assert log.is_closed


def test_deleted_partition_is_removed_when_its_delay_is_over(broker: Broker) -> None:
    log = log_of(broker, **{"file.delete.delay.ms": "0"})
    produce(broker, "t", produced())
    data = Path(broker.directory.path)
    broker.delete_topic("t")
    assert not Path(log.directory).exists()
    assert list(data.glob("t-0.*-delete"))
    asyncio.run(housekeeping(broker).remove_due())
    assert not list(data.glob("t-0*"))

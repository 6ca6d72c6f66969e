"""A shard that is loaded leaves others their turn, whatever its journal is made of."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.led_host import Stage
from penstock.broker.coordinators.led_shard import LedShard
from penstock.broker.coordinators.loading import (
    BATCHES_PER_TURN,
    BYTES_PER_TURN,
    RECORDS_PER_TURN,
    load,
)
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import GroupRecord, OffsetCommitted, OffsetValue
from penstock.groups.replay import LatestRecords
from penstock.records.compression import Codec
from rig.group_world import GroupWorld
from rig.services import Broker


def offset(number: int, *, metadata: str = "") -> OffsetCommitted:
    value = OffsetValue(
        offset=number,
        leader_epoch=None,
        metadata=metadata,
        commit_timestamp_ms=1,
        topic_id=bytes(16),
    )
    return OffsetCommitted(group="billing", topic="orders", partition=number, value=value)


@pytest.mark.parametrize(
    ("batches", "records", "metadata", "turns"),
    [
        (4 * BATCHES_PER_TURN, 1, "", 4),
        (8, 10, "x" * (BYTES_PER_TURN // 20), 4),
        (1, 10 * RECORDS_PER_TURN, "", 10),
    ],
    ids=["small batches", "large batches", "many records"],
)
def test_others_have_their_turn_while_a_journal_is_read(
    tmp_path: Path, batches: int, records: int, metadata: str, turns: int
) -> None:
    async def scenario() -> None:
        broker = Broker(tmp_path)
        broker.create_topic(OFFSETS_TOPIC)
        partition = broker.partition(OFFSETS_TOPIC)
        journal: PartitionJournal[GroupRecord] = PartitionJournal(
            partition,
            partial(group_batch, codec=Codec.NONE),
            clock=broker.world.clock,
            append_failed=broker.partitions.append_failed,
            want_sync=broker.partitions.want_sync,
        )
        for batch in range(batches):
            journal.append(
                [offset(batch * records + one, metadata=metadata) for one in range(records)]
            )
        world = GroupWorld()
        led = LedShard(partition, journal, has_opened=lambda _: None)
        loading = asyncio.create_task(load(led, LatestRecords(), world.context, broker.world.clock))
        taken = 0
        while not loading.done():
            await asyncio.sleep(0)
            taken += 1
        assert await loading
        assert taken >= turns
        assert led.host.stage is Stage.LOADED
        assert len(led.shard.offsets.of_group("billing")["orders"]) == batches * records
        led.host.end()
        broker.close()

    asyncio.run(scenario())

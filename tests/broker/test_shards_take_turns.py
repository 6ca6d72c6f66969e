"""A shard that always has something due keeps no other from its turn."""

import asyncio
from functools import partial
from pathlib import Path

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.led_shard import LedShard
from penstock.broker.coordinators.led_shards import LedShards
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import GroupRecord
from penstock.records.compression import Codec
from penstock.replication.partition import Partition
from rig.services import Broker

PATIENCE_SECONDS = 10.0


def test_a_shard_that_is_never_done_leaves_the_next_one_its_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Broker(tmp_path)
        broker.create_topic(OFFSETS_TOPIC, partitions=2)
        second_had_its_turn = asyncio.Event()

        def lead(partition: Partition) -> LedShard:
            journal: PartitionJournal[GroupRecord] = PartitionJournal(
                partition,
                partial(group_batch, codec=Codec.NONE),
                clock=broker.world.clock,
                append_failed=broker.partitions.append_failed,
                want_sync=broker.partitions.want_sync,
            )
            return LedShard(partition, journal)

        async def load(led: LedShard) -> None:
            led.host.opened()

        def keep_time(led: LedShard) -> bool:
            if led.host.partition is broker.partition(OFFSETS_TOPIC, 0):
                return True
            second_had_its_turn.set()
            return False

        shards = LedShards(
            OFFSETS_TOPIC,
            partitions=broker.partitions,
            clock=broker.world.clock,
            lead=lead,
            load=load,
            keep_time=keep_time,
        )
        shards.follow(broker.services.image)
        running = asyncio.ensure_future(shards.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await second_had_its_turn.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        shards.close()
        broker.close()

    asyncio.run(scenario())

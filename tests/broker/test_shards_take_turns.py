"""What cannot be done keeps nothing else from its turn, in its own shard and in others."""

import asyncio
from functools import partial
from pathlib import Path

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.led_shard import LedShard
from penstock.broker.coordinators.led_shards import LedShards
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.changes import CancelDeadline
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import ClassicGroupStored, GroupRecord
from penstock.groups.timers import SessionEnds
from penstock.machine.decision import Decision
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.records.compression import Codec
from penstock.replication.partition import Partition
from penstock.wire.messages.coordinator_records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
)
from rig.services import Broker

PATIENCE_SECONDS = 10.0


def led_shard(broker: Broker, partition: Partition) -> LedShard:
    journal: PartitionJournal[GroupRecord] = PartitionJournal(
        partition,
        partial(group_batch, codec=Codec.NONE),
        clock=broker.world.clock,
        append_failed=broker.partitions.append_failed,
        want_sync=broker.partitions.want_sync,
    )
    return LedShard(partition, journal)


def test_a_shard_that_is_never_done_leaves_the_next_one_its_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Broker(tmp_path)
        broker.create_topic(OFFSETS_TOPIC, partitions=2)
        second_had_its_turn = asyncio.Event()

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
            lead=partial(led_shard, broker),
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


def test_what_is_due_and_too_large_to_be_journalled_lets_what_is_due_behind_it_pass(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path)
    broker.create_topic(OFFSETS_TOPIC)
    led = led_shard(broker, broker.partition(OFFSETS_TOPIC))
    led.host.opened()
    deadlines = led.shard.deadlines
    large, small = SessionEnds(group="g", member="large"), SessionEnds(group="g", member="small")
    deadlines.set(large, 1)
    deadlines.set(small, 2)
    member = MemberMetadata(member_id="large", subscription=bytes(DECISION_BYTES_MAX))
    stored = ClassicGroupStored(group="g", value=GroupMetadataValue(members=[member]))

    def decide_due() -> Decision[GroupRecord, object]:
        if deadlines.due(10) == large:
            return Decision(reply=None, records=(stored,))
        return Decision(reply=None, volatile=(CancelDeadline(key=small),))

    while led.host.keep_time(decide_due, now_ms=10, deadline_ms=1000):
        pass
    assert deadlines.at(small) is None
    tried_again_ms = deadlines.at(large)
    assert tried_again_ms is not None
    assert tried_again_ms > 10
    led.host.end()
    broker.close()

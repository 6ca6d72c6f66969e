"""What cannot be done keeps nothing else from its turn, in its own shard and in others."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.led_host import RETRY_MS
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
from rig.services import NODE, OTHER, Broker

PATIENCE_SECONDS = 120.0
KeepTime = Callable[[LedShard], bool]


def journal_of(broker: Broker, partition: Partition) -> PartitionJournal[GroupRecord]:
    return PartitionJournal(
        partition,
        partial(group_batch, codec=Codec.NONE),
        clock=broker.world.clock,
        append_failed=broker.partitions.append_failed,
        want_sync=broker.partitions.want_sync,
    )


def led_shard(broker: Broker, partition: Partition) -> LedShard:
    return LedShard(partition, journal_of(broker, partition), has_opened=lambda _: None)


def run_shards(
    tmp_path: Path, make_keep_time: Callable[[Broker, LedShards[LedShard], asyncio.Event], KeepTime]
) -> bool:
    """Two shards that are open keep time until the event is set; whether it was."""

    async def scenario() -> bool:
        broker = Broker(tmp_path)
        broker.create_topic(OFFSETS_TOPIC, partitions=2)
        seen = asyncio.Event()

        async def load(led: LedShard) -> None:
            led.host.opened()

        shards: LedShards[LedShard] = LedShards(
            OFFSETS_TOPIC,
            partitions=broker.partitions,
            clock=broker.world.clock,
            lead=partial(led_shard, broker),
            load=load,
            keep_time=lambda led: keep_time(led),
        )
        keep_time = make_keep_time(broker, shards, seen)
        shards.follow(broker.services.image)
        for led in shards:
            led.host.opened()
        running = asyncio.ensure_future(shards.run())
        await asyncio.wait([asyncio.ensure_future(seen.wait())], timeout=PATIENCE_SECONDS)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        shards.close()
        broker.close()
        return seen.is_set()

    return asyncio.run(scenario())


def test_a_shard_that_is_never_done_leaves_the_next_one_its_turn(tmp_path: Path) -> None:
    def make(broker: Broker, _: LedShards[LedShard], had_its_turn: asyncio.Event) -> KeepTime:
        def keep_time(led: LedShard) -> bool:
            if led.host.partition is broker.partition(OFFSETS_TOPIC, 0):
                return True
            had_its_turn.set()
            return False

        return keep_time

    assert run_shards(tmp_path, make)


def test_a_shard_that_opens_while_another_has_its_turn_is_looked_at_again(tmp_path: Path) -> None:
    """No deadline tells of what is to be done in it, such as markers that have to be sent."""

    def make(broker: Broker, shards: LedShards[LedShard], again: asyncio.Event) -> KeepTime:
        has_opened = False

        def open_first() -> None:
            nonlocal has_opened
            has_opened = True
            shards.look_again()

        def keep_time(led: LedShard) -> bool:
            if led.host.partition is broker.partition(OFFSETS_TOPIC, 0):
                if has_opened:
                    again.set()
                return False
            if has_opened:
                return False
            asyncio.get_running_loop().call_soon(open_first)
            return True

        return keep_time

    assert run_shards(tmp_path, make)


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


def test_a_shard_whose_watermark_lags_is_not_looked_at_over_and_over(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.create_topic(OFFSETS_TOPIC, replicas=(NODE, OTHER))
    partition = broker.partition(OFFSETS_TOPIC)
    journal_of(broker, partition).append([ClassicGroupStored(group="g", value=None)])
    led = led_shard(broker, partition)
    led.replay((), next_offset=partition.log.end_offset)
    led.host.opened()
    assert not led.host.serves, "the follower has nothing yet"
    led.shard.deadlines.set(SessionEnds(group="g", member="m"), 1)
    assert not led.host.keep_time(lambda: None, now_ms=10, deadline_ms=1000)
    next_ms = led.host.next_ms()
    assert next_ms is not None
    assert next_ms >= 10 + RETRY_MS
    led.host.end()
    broker.close()

"""Members are not taken for dead because their coordinator was elected and could not serve yet.

A shard takes decisions once all that it found in its journal is committed. Where too few replicas
are in sync that takes as long as they are away; members cannot be heard meanwhile.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.led_shard import LedShard
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import ClassicGroupStored, GroupRecord
from penstock.records.compression import Codec
from penstock.replication.partition import Partition
from penstock.wire.messages.coordinator_records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
)
from rig.group_world import GroupWorld
from rig.services import NODE, OTHER, Broker

SESSION_MS = 45_000
STORED = ClassicGroupStored(
    group="billing",
    value=GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="member",
        members=[
            MemberMetadata(
                member_id="member",
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=SESSION_MS,
                session_timeout=SESSION_MS,
                subscription=b"",
                assignment=b"",
            )
        ],
    ),
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    broker.create_topic(OFFSETS_TOPIC, replicas=(NODE, OTHER))
    yield broker
    broker.close()


def elected(broker: Broker, partition: Partition, world: GroupWorld) -> LedShard:
    """A shard that has followed its journal, of which the other replica has nothing yet."""
    journal: PartitionJournal[GroupRecord] = PartitionJournal(
        partition,
        partial(group_batch, codec=Codec.NONE),
        clock=broker.world.clock,
        append_failed=broker.partitions.append_failed,
        want_sync=broker.partitions.want_sync,
    )
    journal.append([STORED])
    led = LedShard(partition, journal, has_opened=lambda led: led.begin_sessions(world.context()))
    led.replay([STORED], next_offset=partition.log.end_offset)
    led.loaded(world.context())
    return led


def keep_time(led: LedShard, world: GroupWorld) -> None:
    context = world.context()
    while led.keep_time(context, deadline_ms=context.monotonic_ms + 5000):
        pass


def members(led: LedShard) -> list[str]:
    group = led.shard.groups["billing"]
    assert isinstance(group, ClassicGroup)
    return list(group.members)


def test_sessions_begin_when_the_coordinator_takes_decisions(broker: Broker) -> None:
    world = GroupWorld()
    partition = broker.partition(OFFSETS_TOPIC)
    led = elected(broker, partition, world)
    assert not led.host.serves
    for _ in range(3):
        world.pass_time(SESSION_MS)
        keep_time(led, world)
    partition.follower_fetched(OTHER, offset=partition.log.end_offset, now_ms=0)
    assert led.host.serves
    keep_time(led, world)
    world.pass_time(SESSION_MS - 1)
    keep_time(led, world)
    assert members(led) == ["member"]
    world.pass_time(1)
    keep_time(led, world)
    assert members(led) == []
    led.host.end()

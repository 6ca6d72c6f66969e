"""Offsets of topics that are deleted while their coordinator is being loaded."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from penstock.broker.coordinators.group_coordinator import GroupCoordinator, Ourselves
from penstock.groups.offsets.delete import decide_forget_topics
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.shard import GroupShard
from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch
from penstock.wire.header import RequestHeader
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.world.ports import Address
from rig.calls import count_calls
from rig.services import NODE, Broker

PATIENCE_SECONDS = 60
CLIENT = Ourselves(
    header=RequestHeader(api_key=8, api_version=8, correlation_id=1, client_id="client"),
    peer=Address(host="127.0.0.1", port=1),
)
DELETED = tuple(f"orders{number}" for number in range(20))
KEPT = "bills"


class World:
    """A coordinator of one shard, in which a group has an offset of each topic."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.groups = GroupCoordinator(
            node_id=NODE,
            world=broker.world,
            partitions=broker.partitions,
            controller=cast(Any, None),
            settings=broker.settings.groups,
        )
        for name in (OFFSETS_TOPIC, KEPT, *DELETED):
            broker.create_topic(name)
        image = broker.services.image
        created = tuple(image.topics_by_name.values())
        self.groups.apply(Delta(topics_created=created), image, broker.settings.groups)
        commit = OffsetCommitRequest(
            group_id="billing",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
                    ],
                )
                for name in (KEPT, *DELETED)
            ],
        )
        reply = self.groups.ask("billing", commit, CLIENT)
        codes = {one.partitions[0].error_code for one in reply.topics}
        assert codes == {ErrorCode.NONE}

    @property
    def shard(self) -> GroupShard | None:
        return next(self.groups.shards, None)

    @property
    def committed(self) -> set[str]:
        """Topics of which the group has an offset."""
        return set() if self.shard is None else set(self.shard.offsets.of_group("billing"))

    def elect_again(self) -> None:
        """The shard is to be loaded anew."""
        image = self.broker.services.image
        topic = image.topics_by_name[OFFSETS_TOPIC]
        [led] = topic.partitions
        epoch = LeaderEpoch(led.leader_epoch + 1)
        elected = replace(led, leader_epoch=epoch, partition_epoch=led.partition_epoch + 1)
        self.broker.change_topic(replace(topic, partitions=(elected,)))
        changed = self.broker.services.image.topics_by_name[OFFSETS_TOPIC]
        self._apply(Delta(topics_changed=(changed,)))

    def delete(self, name: str) -> None:
        gone = self.broker.services.image.topics_by_name[name]
        self.broker.delete_topic(name)
        self._apply(Delta(topics_deleted=(gone,)))

    def _apply(self, delta: Delta) -> None:
        image = self.broker.services.image
        self.groups.apply(delta, image, self.broker.settings.groups)


def run(tmp_path: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def whole(broker: Broker) -> None:
        world = World(broker)
        running = asyncio.create_task(world.groups.run())
        await scenario(world)
        world.groups.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    broker = Broker(tmp_path)
    asyncio.run(whole(broker))
    broker.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if is_so():
                return
            await asyncio.sleep(0)


def test_they_are_forgotten_in_one_step_when_it_is_loaded(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.elect_again()
        assert world.shard is None
        for name in DELETED:
            world.delete(name)

        await until(lambda: world.committed == {KEPT})

    assert count_calls(decide_forget_topics, lambda: run(tmp_path, scenario)) == 1


def test_a_shard_that_ends_is_not_kept_for_them(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ended = weakref.ref(cast(GroupShard, world.shard))
        world.delete(DELETED[0])
        await until(lambda: DELETED[0] not in world.committed)
        world.elect_again()
        await until(lambda: world.shard is not None)
        gc.collect()
        assert ended() is None

    run(tmp_path, scenario)

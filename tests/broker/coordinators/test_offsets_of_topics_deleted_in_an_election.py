"""Offsets of a deleted topic are forgotten also where the same change elects their coordinator."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from penstock.broker.coordinators.group_coordinator import GroupCoordinator, Ourselves
from penstock.groups.partitioning import OFFSETS_TOPIC
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
from rig.services import NODE, Broker

PATIENCE_SECONDS = 60
VERSION = 8
CLIENT = Ourselves(
    header=RequestHeader(api_key=8, api_version=VERSION, correlation_id=1, client_id="client"),
    peer=Address(host="127.0.0.1", port=1),
)
COMMIT = OffsetCommitRequest(
    group_id="billing",
    generation_id_or_member_epoch=-1,
    topics=[
        OffsetCommitRequestTopic(
            name="orders",
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
        )
    ],
)


def test_the_new_shard_forgets_them(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        settings = broker.settings.groups
        groups = GroupCoordinator(
            node_id=NODE,
            world=broker.world,
            partitions=broker.partitions,
            controller=cast(Any, None),
            settings=settings,
        )
        for name in (OFFSETS_TOPIC, "orders"):
            broker.create_topic(name)
        before = broker.services.image
        offsets, orders = (before.topics_by_name[name] for name in (OFFSETS_TOPIC, "orders"))
        groups.apply(Delta(topics_created=(offsets, orders)), before, settings)
        running = asyncio.create_task(groups.run())
        reply = groups.ask("billing", COMMIT, CLIENT)
        assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE
        [led] = offsets.partitions
        elected = replace(
            offsets,
            partitions=(
                replace(led, leader_epoch=LeaderEpoch(led.leader_epoch + 1), partition_epoch=1),
            ),
        )
        after = replace(
            before,
            topics_by_name={OFFSETS_TOPIC: elected},
            topics_by_id={elected.topic_id: elected},
        )
        delta = Delta(topics_deleted=(orders,), topics_changed=(elected,))
        broker.partitions.apply(delta, after)
        groups.apply(delta, after, settings)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                shards = list(groups.shards)
                if shards and "billing" not in shards[0].offsets:
                    break
                await asyncio.sleep(0)
        groups.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    broker = Broker(tmp_path)
    asyncio.run(scenario(broker))
    broker.close()

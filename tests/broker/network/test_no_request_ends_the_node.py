"""Whatever a client asks, however absurd, is answered or costs it the connection: no more.

Every API in every version that is served, over real sockets, several requests in flight on each of
several connections, against a whole node. A failure names the seed, which draws it again.
"""

import asyncio
import random
from pathlib import Path

import pytest

from penstock.broker.api import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.dispatch import is_served
from penstock.broker.request.api_table import AnyApi
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.world.real import real_world
from rig.nonsense_requests import NOW_MS, Absurd
from rig.nonsense_talker import Talker, assert_serves

GROUP_APIS: tuple[AnyApi, ...] = (
    consumer_group_describe.API,
    consumer_group_heartbeat.API,
    delete_groups.API,
    describe_groups.API,
    heartbeat.API,
    join_group.API,
    leave_group.API,
    list_groups.API,
    offset_commit.API,
    offset_delete.API,
    offset_fetch.API,
    sync_group.API,
)
EVERY_VERSION: list[tuple[AnyApi, int]] = [
    (api, version)
    for api in SERVED
    for version in range(api.versions.min, api.versions.max + 1)
    if is_served(api, version)
]
# The data plane has the most state that requests in flight can pull from under each other.
DATA_PLANE = [
    pair for pair in EVERY_VERSION if pair[0].key.name in ("FETCH", "PRODUCE", "DELETE_RECORDS")
]
# Members are admitted, silent and gone within milliseconds, while others ask about them.
GROUPS = [pair for pair in EVERY_VERSION if pair[0] in GROUP_APIS]
assert len(GROUPS) > len(GROUP_APIS)
CONNECTIONS = 4


@pytest.mark.parametrize("seed", range(3))
def test_no_request_ends_the_node(tmp_path: Path, seed: int) -> None:
    asyncio.run(converse(tmp_path, random.Random(seed), beside=DATA_PLANE))


@pytest.mark.parametrize("seed", range(3))
def test_no_request_about_groups_ends_the_node(tmp_path: Path, seed: int) -> None:
    asyncio.run(converse(tmp_path, random.Random(seed), beside=GROUPS))


async def converse(data: Path, dice: random.Random, *, beside: list[tuple[AnyApi, int]]) -> None:
    settings = parse_broker(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "auto.create.topics.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1",
            "group.max.session.timeout.ms": "100",
            "offsets.topic.num.partitions": "1",
        }
    )
    config = NodeConfig(node_id=NodeId(1), data_directory=str(data), settings=settings)
    node = build(real_world(inline=True), config)
    await node.start()
    absurd = Absurd(dice)
    talkers = [Talker(node.addresses[0], absurd) for _ in range(CONNECTIONS)]
    every_version = EVERY_VERSION * 3
    dice.shuffle(every_version)
    for number, (api, version) in enumerate(every_version):
        if number % 50 == 0:
            await make_topics(talkers[0])  # those before may have been deleted
        await dice.choice(talkers).ask(absurd.message(api.request, version), version)
        for _ in range(4):
            other_api, other_version = dice.choice(beside)
            drawn = absurd.message(other_api.request, other_version)
            await dice.choice(talkers).ask(drawn, other_version)
    for talker in talkers:
        await talker.hear_all()
        talker.close()
    await assert_serves(node.addresses[0])
    await node.stop()
    assert await node.failed() is None


async def make_topics(talker: Talker) -> None:
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "tu"]
    await talker.ask(CreateTopicsRequest(topics=topics), 5)
    await talker.ask(FindCoordinatorRequest(key="g"), 3)
    await talker.ask(MetadataRequest(topics=None), 12)
    await talker.hear_all()
    for name in "tu":
        batch = build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)] * 5)
        partition = PartitionProduceData(index=0, records=memoryview(batch))
        topic = TopicProduceData(name=name, partition_data=[partition])
        await talker.ask(ProduceRequest(acks=1, topic_data=[topic]), 9)
    await talker.hear_all()

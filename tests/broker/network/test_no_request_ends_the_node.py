"""Whatever a client asks, however absurd, is answered or costs it the connection: no more.

Every API in every version that is served, over real sockets, several requests in flight on each of
several connections, against a whole node. A failure names the seed, which draws it again.
"""

import asyncio
import random
from pathlib import Path
from typing import cast

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
from penstock.node.lifecycle import Node
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.definition import Message
from penstock.wire.framing import FrameReader
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.fetch import FetchRequest, FetchResponse
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.world.errors import NetworkError
from penstock.world.ports import Stream
from penstock.world.real import real_world
from penstock.world.tcp import TcpNetwork
from rig.nonsense_requests import NOW_MS, Absurd

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
IN_FLIGHT_MAX = 8
REPLY_SECONDS_MAX = 120


class Talker:
    """One connection after another: who asks absurdly is hung up on now and then."""

    def __init__(self, node: Node, absurd: Absurd) -> None:
        self._node = node
        self._absurd = absurd
        self._stream: Stream | None = None
        self._frames = FrameReader(frame_bytes_max=2**30)
        self._asked: list[tuple[Message, int]] = []

    async def ask(self, message: Message, version: int) -> None:
        if self._stream is None:
            self._stream = await TcpNetwork().connect(self._node.addresses[0])
            self._frames = FrameReader(frame_bytes_max=2**30)
            self._asked = []
        client_id = self._absurd.client_id()
        parts = encode_request(message, version=version, correlation_id=7, client_id=client_id)
        try:
            await self._stream.send([cast(bytes, part) for part in parts])
        except NetworkError:
            self._hang_up()
            return
        if getattr(message, "acks", None) != 0:
            self._asked.append((message, version))
        if len(self._asked) >= IN_FLIGHT_MAX:
            await self.hear_all()

    async def hear_all(self) -> None:
        """Takes every reply that is owed, or the end of the connection."""
        while self._stream is not None and self._asked:
            frame = self._frames.next_frame()
            if frame is not None:
                self._learn(frame, *self._asked.pop(0))
                continue
            try:
                view = self._frames.receive_view()
                count = await asyncio.wait_for(self._stream.receive_into(view), REPLY_SECONDS_MAX)
            except NetworkError:
                count = 0
            self._frames.received(count)
            if count == 0:
                self._hang_up()

    def close(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _learn(self, frame: memoryview, asked: Message, version: int) -> None:
        """What a reply gives away is drawn later, by this one or by another connection."""
        if isinstance(asked, FetchRequest):
            reply = decode_response(FetchResponse, version, frame)
            if reply.session_id and reply.session_id not in self._absurd.sessions:
                self._absurd.sessions = [*self._absurd.sessions[-3:], reply.session_id]
        elif isinstance(asked, MetadataRequest):
            for topic in decode_response(MetadataResponse, version, frame).topics:
                if topic.topic_id not in self._absurd.topic_ids:
                    self._absurd.topic_ids = [*self._absurd.topic_ids[-5:], topic.topic_id]
        elif isinstance(asked, JoinGroupRequest):
            self._learn_member(decode_response(JoinGroupResponse, version, frame).member_id)
        elif isinstance(asked, ConsumerGroupHeartbeatRequest):
            told = decode_response(ConsumerGroupHeartbeatResponse, version, frame)
            self._learn_member(told.member_id or "")

    def _learn_member(self, member_id: str) -> None:
        if member_id not in self._absurd.member_ids:
            self._absurd.member_ids = ["", *self._absurd.member_ids[-3:], member_id]


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
    talkers = [Talker(node, absurd) for _ in range(CONNECTIONS)]
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
    await assert_serves(node)
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


async def assert_serves(node: Node) -> None:
    stream = await TcpNetwork().connect(node.addresses[0])
    parts = encode_request(ApiVersionsRequest(), version=0, correlation_id=1, client_id="sane")
    await stream.send([cast(bytes, part) for part in parts])
    frames = FrameReader(frame_bytes_max=2**20)
    while (frame := frames.next_frame()) is None:
        count = await stream.receive_into(frames.receive_view())
        assert count > 0, "the node hung up on a sane request"
        frames.received(count)
    assert decode_response(ApiVersionsResponse, 0, frame).error_code == 0
    stream.close()

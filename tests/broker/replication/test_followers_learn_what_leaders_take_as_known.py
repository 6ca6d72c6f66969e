"""A leader tells a watermark or a start once: whatever requests and replies pass each other on the
way, the follower knows both in the end. A real leader, the session of a real fetcher.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from penstock.broker.api import fetch as fetch_api
from penstock.broker.replication.fetcher import answers_of
from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.replication.follower import Taken
from penstock.replication.partition import Partition
from penstock.replication.replica_session import PartitionId, ReplicaSession
from penstock.wire.messages.fetch import FetchResponse, PartitionData, ReplicaState
from rig.data_requests import bytes_of
from rig.fetching_follower import VERSION, settle
from rig.produced import NOW_MS, produced
from rig.replicas import follow
from rig.services import NODE, OTHER, Broker

THIRD = NodeId(3)
WAIT_MS = 600_000


class Following:
    """A broker that leads topic `t`, and a follower of all its partitions. Requests are at the
    leader at once; a reply is on its way until `receive`.
    """

    def __init__(self, broker: Broker, *, partitions: int, in_sync: tuple[NodeId, ...]) -> None:
        self.broker = broker
        topic_id = broker.create_topic("t", partitions, replicas=(NODE, OTHER, THIRD))
        topic = broker.services.image.topics_by_name["t"]
        changed = tuple(replace(one, isr=in_sync, partition_epoch=1) for one in topic.partitions)
        broker.change_topic(replace(topic, partitions=changed))
        self.session = ReplicaSession()
        self.followers = {(topic_id, index): follow(epoch=0) for index in range(partitions)}
        self.names = list(self.followers)
        self.replies: deque[asyncio.Future[FetchResponse]] = deque()
        self._wanted: set[PartitionId] = set()
        self._out_of_range: dict[PartitionId, None] = {}

    def leader(self, index: int) -> Partition:
        return self.broker.partition("t", index)

    def append(self, index: int) -> None:
        self.leader(index).append(produced(), all_acks=False, now_ms=NOW_MS)

    def third_catches_up(self, index: int) -> None:
        """It is in sync: the high watermark moves, as far as it depends on it."""
        partition = self.leader(index)
        partition.follower_fetched(
            THIRD, offset=partition.log.end_offset, broker_epoch=1, log_start_offset=0, now_ms=0
        )

    def delete_records(self, index: int, *, below: int) -> None:
        partition = self.leader(index)
        partition.advance_start(Offset(below))
        partition.start_moved()

    def wants(self, index: int) -> bool:
        return self.names[index] in self._wanted

    def leave_out(self, index: int) -> None:
        partition = self.names[index]
        self._wanted.discard(partition)
        self.session.leave_out(partition)

    def want(self, index: int) -> None:
        partition = self.names[index]
        if partition not in self._out_of_range:
            position = self.followers[partition].position()
            assert position is not None
            self._wanted.add(partition)
            self.session.want(partition, position)

    @property
    def may_send(self) -> bool:
        session = self.session
        return session.outstanding == 0 or (session.has_news and session.may_interrupt)

    async def send(self, *, wait_ms: int = WAIT_MS) -> None:
        if self.session.outstanding == 0:
            self._restart_out_of_range()
        may_wait = self.session.may_wait
        request = self.session.next_request(partition_bytes_max=2**20)
        request.replica_state = ReplicaState(replica_id=OTHER, replica_epoch=1)
        request.max_wait_ms = wait_ms if may_wait else 0
        request.min_bytes = 1
        sent = self.broker.send(fetch_api.API, request, version=VERSION)
        if isinstance(sent, FetchResponse):
            reply: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
            reply.set_result(sent)
        else:
            reply = asyncio.ensure_future(cast(Awaitable[FetchResponse], sent))
        self.replies.append(reply)
        await settle()
        self._check()

    async def receive(self) -> None:
        """The oldest reply arrives, and is taken as the fetcher takes it."""
        response = await self.replies.popleft()
        if self.session.replied(response):
            for partition, data in answers_of(response):
                asked = self.session.asked(partition)
                if asked is None:
                    continue
                follower = self.followers[partition]
                assert isinstance(data, PartitionData)
                data.records = bytes_of(data)
                taken = follower.take(asked, data, now_ms=NOW_MS, moves_start=False)
                if taken is Taken.OUT_OF_RANGE:
                    self.leave_out(partition[1])
                    self._out_of_range[partition] = None
                    continue
                if follower.start_behind is not None:
                    follower.advance_start(follower.start_behind)
                self.want(partition[1])
            self.session.taken()
        self._check()

    async def settle_down(self) -> None:
        """All is wanted, nothing happens at the leader, and fetches go on until all is told."""
        for index in range(len(self.names)):
            self.want(index)
        for _ in range(8):
            known = self.broker.services.follower_sessions.by_node.get(OTHER)
            if known is not None and known.poll is not None:
                known.poll.time_is_up()
            while self.replies:
                await self.receive()
            await self.send(wait_ms=0)
        await self.receive()

    def assert_all_is_known(self) -> None:
        for partition, follower in self.followers.items():
            leader = self.leader(partition[1])
            assert follower.log.end_offset == leader.log.end_offset
            assert follower.high_watermark == leader.high_watermark
            assert follower.log.start_offset == leader.log.start_offset

    def _restart_out_of_range(self) -> None:
        for partition in self._out_of_range:
            log = self.leader(partition[1]).log
            follower = self.followers[partition]
            follower.restart_at(
                leader_epoch=follower.leader_epoch,
                leader_start=log.start_offset,
                leader_end=log.end_offset,
            )
        restarted, self._out_of_range = self._out_of_range, {}
        for partition in restarted:
            self.want(partition[1])

    def _check(self) -> None:
        self.session.check()
        self.broker.services.follower_sessions.check()
        for follower in self.followers.values():
            follower.check()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


@pytest.fixture(params=["bytes", "messages"], autouse=True)
def way(request: pytest.FixtureRequest, broker: Broker) -> None:
    if request.param == "bytes":
        broker.takes_shortcut = (fetch_api.API.shortcut, FetchResponse)


@pytest.mark.parametrize("news", ["start", "watermark"])
def test_news_in_a_reply_that_a_third_request_has_passed_are_known(
    broker: Broker, news: str
) -> None:
    """The second reply has the records of the first, and something new; it is about a position
    that the third request has replaced.
    """

    async def scenario() -> None:
        following = Following(broker, partitions=2, in_sync=(NODE, THIRD))
        following.append(0)
        following.third_catches_up(0)
        await following.settle_down()
        await following.send()  # waits
        following.append(0)
        if news == "start":
            following.third_catches_up(0)
        await settle()
        assert following.replies[0].done()
        if news == "start":
            following.delete_records(0, below=1)
        else:
            following.third_catches_up(0)
        following.leave_out(1)
        await following.send()
        assert following.replies[1].done()
        await following.receive()
        following.want(1)
        await following.send()
        await following.receive()
        await following.settle_down()
        following.assert_all_is_known()

    run(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_a_follower_knows_everything_after_any_order_of_events(broker: Broker, seed: int) -> None:
    """In short episodes, since what happens later in a partition is told with all before."""
    chance = random.Random(seed)

    async def scenario() -> None:
        in_sync = chance.choice([(NODE, THIRD), (NODE, OTHER, THIRD)])
        following = Following(broker, partitions=3, in_sync=in_sync)
        for _ in range(120):
            if not following.session.is_empty:
                await following.send()
            for _ in range(chance.randint(5, 15)):
                await step(following, chance)
            await following.settle_down()
            following.assert_all_is_known()

    run(scenario())


async def step(following: Following, chance: random.Random) -> None:
    index = chance.randrange(2)
    leader = following.leader(index)
    match chance.randrange(12):
        case 0:
            following.append(index)
        case 1:
            following.third_catches_up(index)
        case 2:
            below = chance.randint(leader.log.start_offset, leader.high_watermark)
            following.delete_records(index, below=below)
        case 3 | 4 | 5 | 6 | 7 if following.replies and following.replies[0].done():
            await following.receive()
        case _:
            # What lets a fetcher send while it waits: a sync, a back-off, new metadata.
            index = chance.choice([0, 1, 2, 2, 2, 2])
            (following.leave_out if following.wants(index) else following.want)(index)
            if following.may_send and not following.session.is_empty:
                await following.send()
    await settle()

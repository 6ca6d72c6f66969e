"""A parked request is answered although the journal cannot commit what it waits for.

The SyncGroup of a follower waits for that of the leader of its group. The decision about the latter
answers both, once it is committed: while too few replicas are in sync that may take for ever, so
both are told to try again when `offsets.commit.timeout.ms` is over.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.led_shard import LedShard
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked
from penstock.model.error import ErrorCode, RequestError
from penstock.records.compression import Codec
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from rig.group_world import GroupWorld
from rig.services import NODE, OTHER, Broker

DELAY_MS = 300
SESSION_MS = 45_000
COMMIT_MS_MAX = 5_000
ID_AT_ONCE = 3  # the last version of JoinGroup whose first request makes a member
SYNC_VERSION = 4


class Coordinator:
    """One shard, whose other replica has what `commit` gives it."""

    def __init__(self, broker: Broker) -> None:
        self.partition = broker.partition(OFFSETS_TOPIC)
        self.world = GroupWorld({"group.initial.rebalance.delay.ms": str(DELAY_MS)})
        journal: PartitionJournal[GroupRecord] = PartitionJournal(
            self.partition,
            partial(group_batch, codec=Codec.NONE),
            clock=broker.world.clock,
            append_failed=broker.partitions.append_failed,
            want_sync=broker.partitions.want_sync,
        )
        self.led = LedShard(self.partition, journal, has_opened=lambda _: None)
        self.led.loaded(self.world.context())
        self._tickets = 0

    def ask(self, request: object, *, version: int) -> asyncio.Future[object]:
        self._tickets += 1
        context = self.world.context()
        asked = Asked(
            request=request,
            version=version,
            ticket=self._tickets,
            client_id="client",
            client_host="/127.0.0.1",
        )
        reply = self.led.ask(asked, context, deadline_ms=context.monotonic_ms + COMMIT_MS_MAX)
        assert isinstance(reply, asyncio.Future), reply
        return reply

    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)
        context = self.world.context()
        while self.led.keep_time(context, deadline_ms=context.monotonic_ms + COMMIT_MS_MAX):
            pass

    def commit(self) -> None:
        self.partition.follower_fetched(OTHER, offset=self.partition.log.end_offset, now_ms=0)

    def join(self) -> asyncio.Future[object]:
        request = JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"topics")],
        )
        return self.ask(request, version=ID_AT_ONCE)

    def sync(self, member: JoinGroupResponse, **parts: bytes) -> asyncio.Future[object]:
        request = SyncGroupRequest(
            group_id="billing",
            generation_id=member.generation_id,
            member_id=member.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=part)
                for member_id, part in parts.items()
            ],
        )
        return self.ask(request, version=SYNC_VERSION)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    broker.create_topic(OFFSETS_TOPIC, replicas=(NODE, OTHER))
    yield broker
    broker.close()


async def generation_of_two(at: Coordinator) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """The leader and the follower of a group's first generation."""
    asked = [at.join(), at.join()]
    for _ in range(3):  # the delay begins again as long as members come
        at.pass_time(DELAY_MS)
    leader, follower = [await asyncio.wait_for(one, 1) for one in asked]
    assert isinstance(leader, JoinGroupResponse)
    assert isinstance(follower, JoinGroupResponse)
    assert leader.leader == follower.leader == leader.member_id
    return leader, follower


def code_of(reply: asyncio.Future[object]) -> ErrorCode | None:
    """The error that it was answered with; None while it waits."""
    if not reply.done():
        return None
    error = reply.exception()
    assert isinstance(error, RequestError)
    return error.code


def test_a_parked_sync_is_answered_when_the_assignment_is_not_committed_in_time(
    broker: Broker,
) -> None:
    async def main() -> None:
        at = Coordinator(broker)
        leader, follower = await generation_of_two(at)
        parked = at.sync(follower)
        at.pass_time(1_000)
        assigning = at.sync(leader, **{follower.member_id: b"its part"})
        at.pass_time(COMMIT_MS_MAX - 1)
        assert (code_of(assigning), code_of(parked)) == (None, None)
        at.pass_time(1)
        assert code_of(assigning) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert code_of(parked) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = at.sync(follower)
        at.commit()
        reply = await asyncio.wait_for(again, 1)
        assert isinstance(reply, SyncGroupResponse)
        assert reply.assignment == b"its part"
        at.led.host.end()

    asyncio.run(main())


def test_a_parked_sync_is_answered_with_its_part_when_the_assignment_is_committed(
    broker: Broker,
) -> None:
    async def main() -> None:
        at = Coordinator(broker)
        leader, follower = await generation_of_two(at)
        parked = at.sync(follower)
        at.sync(leader, **{follower.member_id: b"its part"})
        at.pass_time(COMMIT_MS_MAX - 1)
        at.commit()
        reply = await asyncio.wait_for(parked, 1)
        assert isinstance(reply, SyncGroupResponse)
        assert reply.assignment == b"its part"
        at.led.host.end()

    asyncio.run(main())

"""From version 5 on a SyncGroup names its protocol, whatever kind of group it is for."""

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from rig.group_world import GroupWorld

METADATA = write_embedded(ConsumerProtocolSubscription(topics=["t"]), version=1)


def sync(world: GroupWorld, request: SyncGroupRequest, *, version: int) -> ErrorCode:
    reply = world.answers[world.ask(request, version=version)]
    assert isinstance(reply, SyncGroupResponse), reply
    return ErrorCode(reply.error_code)


def test_a_classic_member_of_a_consumer_group_has_to_name_it() -> None:
    world = GroupWorld()
    begin = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="modern",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    world.ask(begin, version=1)
    join = JoinGroupRequest(
        group_id="g",
        member_id="classic",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
    )
    joined = world.answers[world.ask(join, version=9)]
    assert isinstance(joined, JoinGroupResponse)
    request = SyncGroupRequest(
        group_id="g", member_id="classic", generation_id=joined.generation_id
    )
    assert sync(world, request, version=5) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(world, request, version=4) is ErrorCode.NONE


@pytest.mark.parametrize("group", ["", "nobody-knows"])
def test_nothing_else_is_looked_at_before_that(group: str) -> None:
    request = SyncGroupRequest(group_id=group, member_id="m", generation_id=1)
    assert sync(GroupWorld(), request, version=5) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

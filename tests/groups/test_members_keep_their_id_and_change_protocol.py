"""A member that goes on under its id with the other protocol has the deadlines of that one only."""

from penstock.groups.consumer.group import ConsumerGroup
from penstock.model.error import ErrorCode
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from rig.group_world import GroupWorld, image_of

GROUP = "g"
REBALANCE_MS = 60_000
HEARTBEAT_MS = 5_000


def told_group(world: GroupWorld) -> ConsumerGroup:
    group = world.shard.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    return group


def join_by_heartbeat(world: GroupWorld, member: str) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    reply = world.answers[world.ask(request, version=1)]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse), reply
    assert reply.error_code == ErrorCode.NONE


def heartbeat(world: GroupWorld, member_id: str) -> None:
    """Tells that it owns what it is assigned, as a client does that has carried it out."""
    member = told_group(world).members[member_id]
    owned = [
        TopicPartitions(topic_id=place.topic_id, partitions=[place.partition])
        for place in sorted(member.assigned)
    ]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=member.epoch,
        topic_partitions=owned,
    )
    reply = world.answers[world.ask(request, version=1)]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse), reply
    assert reply.error_code == ErrorCode.NONE, reply


def join_classically(world: GroupWorld, member: str) -> None:
    metadata = write_embedded(ConsumerProtocolSubscription(topics=["t"]), version=1)
    request = JoinGroupRequest(
        group_id=GROUP,
        member_id=member,
        session_timeout_ms=10 * REBALANCE_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    reply = world.answers[world.ask(request, version=9)]
    assert isinstance(reply, JoinGroupResponse), reply
    assert reply.error_code == ErrorCode.NONE


def test_nobody_waits_for_the_sync_of_a_member_that_now_sends_heartbeats_only() -> None:
    world = GroupWorld(
        {"group.max.session.timeout.ms": str(10 * REBALANCE_MS)}, image=image_of({"t": 4})
    )
    join_by_heartbeat(world, "a")
    join_classically(world, "b")
    join_by_heartbeat(world, "b")
    for _ in range(2 * REBALANCE_MS // HEARTBEAT_MS):
        world.pass_time(HEARTBEAT_MS)
        heartbeat(world, "a")
        heartbeat(world, "b")
    assert list(told_group(world).members) == ["a", "b"]

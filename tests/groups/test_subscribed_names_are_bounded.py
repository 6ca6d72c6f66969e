"""Members subscribe to as many topics by name as a coordinator can look at in one step."""

from collections.abc import Iterable

from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.consumer.stored import group_stored, member_stored
from penstock.groups.decide import decide
from penstock.groups.requests import Asked
from penstock.model.error import ErrorCode
from penstock.model.limit import SUBSCRIBED_NAMES_OF_GROUP_MAX, SUBSCRIBED_NAMES_OF_MEMBER_MAX
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rig.group_world import GroupWorld, image_of
from rig.offset_requests import commit, commit_request, delete_offsets, join_alone

TOO_MANY = SUBSCRIBED_NAMES_OF_GROUP_MAX + 1
MOST = [f"n{number}" for number in range(SUBSCRIBED_NAMES_OF_MEMBER_MAX)]


def full_group(world: GroupWorld) -> ConsumerGroup:
    """Its members subscribe to as many names as they may together."""
    world.shard.apply(group_stored("g", epoch=1, metadata_hash=0))
    for number in range(SUBSCRIBED_NAMES_OF_GROUP_MAX // len(MOST)):
        member = ConsumerMember(member_id=f"m{number}", topics=tuple(MOST), epoch=1)
        world.shard.apply(member_stored("g", member))
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def heartbeat(
    world: GroupWorld, member_id: str, names: Iterable[str], *, epoch: int = 0
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=list(names),
        topic_partitions=[],
    )
    asked = Asked(request=request, version=1, ticket=1, client_id="c", client_host="/127.0.0.1")
    reply = decide(world.shard, world.context(), asked).reply
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply


def test_a_member_that_subscribes_to_more_names_than_it_may_is_refused() -> None:
    reply = heartbeat(GroupWorld(), "m", [*MOST, "t"])
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert str(SUBSCRIBED_NAMES_OF_MEMBER_MAX) in (reply.error_message or "")
    assert heartbeat(GroupWorld(), "m", [*MOST, MOST[0]]).error_code == ErrorCode.NONE


def test_a_group_whose_members_subscribe_to_all_that_they_may_takes_no_more_names() -> None:
    world = GroupWorld()
    full_group(world)
    refused = heartbeat(world, "new", ["t"])
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert str(SUBSCRIBED_NAMES_OF_GROUP_MAX) in (refused.error_message or "")


def test_members_of_a_full_group_may_subscribe_to_other_names_and_to_fewer() -> None:
    world = GroupWorld()
    full_group(world)
    for names in (MOST, [*MOST[1:], "other"], ["t"]):
        assert heartbeat(world, "m0", names).error_code == ErrorCode.NONE


def test_a_group_counts_names_as_its_members_change_and_leave() -> None:
    world = GroupWorld(image=image_of({"a": 1, "b": 1}))
    for member_id, names in (("m", ["a", "b"]), ("n", ["a"]), ("m", ["b", "c"]), ("n", ["b"])):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=names,
            topic_partitions=[],
        )
        world.ask(request, version=1)
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.subscribers == {"b": 2, "c": 1}
    assert group.subscribed_count == 3
    world.ask(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), version=1
    )
    assert group.subscribers == {"b": 1}
    world.fail_over()
    world.check()


def test_what_a_classic_member_reads_is_unknown_when_that_is_more_than_is_read_in_a_step() -> None:
    for count, deleted in ((3, ErrorCode.NONE), (TOO_MANY, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)):
        world = GroupWorld(image=image_of({"kept": 1}))
        commit(world, commit_request("g", {("kept", 0): 1}))
        join_alone(world, "g", topics=["t"] * count)
        [topic] = delete_offsets(world, "g", [("kept", 0)]).topics
        assert topic.partitions[0].error_code == deleted

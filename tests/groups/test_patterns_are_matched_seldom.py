"""Patterns are matched against topics that are new to them, and never again: it is costly."""

from dataclasses import replace

from penstock.groups.consumer.group import ConsumerGroup
from penstock.model.error import ErrorCode
from penstock.model.limit import GROUP_REGEXES_MAX
from penstock.model.offset import Offset
from penstock.model.regex.pattern import Pattern
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rig.calls import count_calls
from rig.group_world import GroupWorld
from rig.modern_consumer import Topics


def join(world: GroupWorld, member: str, regex: str) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[],
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )
    reply = world.answers[world.ask(request, version=1)]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply


def beat(world: GroupWorld, member: str, epoch: int) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch)
    reply = world.answers[world.ask(request, version=1)]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    assert reply.error_code == ErrorCode.NONE, reply


def topics_of(world: GroupWorld, regex: str) -> tuple[str, ...]:
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group.regexes[regex]


def test_a_member_that_joins_has_only_its_own_pattern_matched() -> None:
    world = GroupWorld(image=Topics({"a1": 1, "b1": 1}).image())
    for number in range(5):
        join(world, f"m{number}", f"a{number}")
    assert count_calls(Pattern.matching, lambda: join(world, "m", "b.*")) == 1
    assert count_calls(Pattern.matching, lambda: join(world, "n", "b.*")) == 0
    assert topics_of(world, "b.*") == ("b1",)


def test_metadata_that_leave_the_topics_as_they_are_cost_no_matching() -> None:
    world = GroupWorld(image=Topics({"a1": 1}).image())
    epoch = join(world, "m", "a.*").member_epoch
    world.image = replace(world.image, offset=Offset(world.image.offset + 10))
    assert count_calls(Pattern.matching, lambda: beat(world, "m", epoch)) == 0


def test_only_topics_that_are_new_are_matched() -> None:
    topics = Topics({"a1": 1, "a2": 1, "b1": 1})
    world = GroupWorld(image=topics.image())
    epoch = join(world, "m", "a.*").member_epoch
    topics.delete("a2")
    topics.create("a0", 1)
    topics.create("b0", 1)
    world.image = topics.image()
    matched = Pattern.matches
    assert count_calls(matched, lambda: beat(world, "m", epoch)) == 2
    assert topics_of(world, "a.*") == ("a0", "a1")


def test_topics_made_just_before_a_member_leaves_are_found_by_the_next_heartbeat() -> None:
    topics = Topics({"a1": 1})
    world = GroupWorld(image=topics.image())
    epoch = join(world, "m", "a.*").member_epoch
    join(world, "n", "a.*")
    topics.create("a0", 1)
    world.image = topics.image()
    leaving = ConsumerGroupHeartbeatRequest(group_id="g", member_id="n", member_epoch=-1)
    world.ask(leaving, version=1)
    beat(world, "m", epoch)
    assert topics_of(world, "a.*") == ("a0", "a1")


def test_a_pattern_that_comes_with_new_topics_finds_each_once() -> None:
    topics = Topics({"a1": 1})
    world = GroupWorld(image=topics.image())
    join(world, "m", "a1")
    topics.create("a0", 1)
    world.image = topics.image()
    join(world, "n", "a.*")
    assert topics_of(world, "a.*") == ("a0", "a1")


def test_a_group_has_a_bound_of_patterns() -> None:
    world = GroupWorld(image=Topics({"a1": 1}).image())
    for number in range(GROUP_REGEXES_MAX):
        assert join(world, f"m{number}", f"a{number}").error_code == ErrorCode.NONE
    refused = join(world, "m", "b.*")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert join(world, "n", "a1").error_code == ErrorCode.NONE
    world.check()

"""Offsets are kept for as long as the settings say, from when nobody used them any more."""

from dataclasses import replace
from functools import partial

import pytest

from penstock.groups.offsets.expiry import decide_expiry
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId
from penstock.model.limit import EXPIRY_ENTRIES_PER_STEP
from penstock.wire.embedded import read_embedded
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from rig.calls import count_calls
from rig.group_world import GroupWorld, image_of
from rig.modern_consumer import ModernConsumer
from rig.offset_requests import commit, commit_request, committed, join_alone, leave, listed

ORDERS = ("orders", 0)
BILLS = ("bills", 0)
MINUTE_MS = 60_000
CHECK_MS = 600_000
RETENTION_MS = 60 * MINUTE_MS
SETTINGS = {"offsets.retention.minutes": "60"}


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(SETTINGS, image=image_of({"orders": 3, "bills": 1}))


def beat(world: GroupWorld, group: str, member: str, epoch: int, *, for_ms: int) -> None:
    """The member lives on, and commits for one of its topics alone."""
    for _ in range(for_ms // 9000 + 1):
        world.pass_time(9000)
        commit(world, commit_request(group, {ORDERS: 1}, member=member, epoch=epoch))


def test_a_consumer_without_a_group_keeps_its_offsets_from_their_commit(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    world.pass_time(RETENTION_MS // 2)
    commit(world, commit_request("g", {BILLS: 6}))
    world.pass_time(RETENTION_MS // 2 + CHECK_MS)
    assert committed(world, "g") == {BILLS: 6}
    world.pass_time(RETENTION_MS)
    assert committed(world, "g") == {}
    assert listed(world) == []


def test_nothing_expires_before_its_time(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    world.pass_time(RETENTION_MS - 1)
    assert committed(world, "g") == {ORDERS: 5}


def test_a_group_keeps_its_offsets_from_when_the_last_member_left(world: GroupWorld) -> None:
    member, epoch = join_alone(world, "g", topics=["orders"])
    commit(world, commit_request("g", {ORDERS: 5}, member=member, epoch=epoch))
    beat(world, "g", member, epoch, for_ms=RETENTION_MS - CHECK_MS)
    leave(world, "g", member)
    world.pass_time(RETENTION_MS - 1)
    assert ORDERS in committed(world, "g")
    world.pass_time(CHECK_MS + 1)
    assert committed(world, "g") == {}
    assert listed(world) == []


def leave_after_a_long_time(world: GroupWorld) -> None:
    """A member of the consumer protocol commits once, reads on for long, and leaves."""
    consumer = ModernConsumer(world, "g", "m", topics=("orders",))
    consumer.act()
    request = commit_request("g", {ORDERS: 5}, member="m", epoch=consumer.epoch)
    assert commit(world, request) == {ORDERS: ErrorCode.NONE}
    for _ in range((RETENTION_MS + CHECK_MS) // 9000 + 1):
        world.pass_time(9000)
        consumer.act()
    consumer.leave()
    assert consumer.last_code is ErrorCode.NONE


def test_a_group_of_the_consumer_protocol_keeps_them_from_then_too(world: GroupWorld) -> None:
    leave_after_a_long_time(world)
    world.pass_time(RETENTION_MS - 1)
    assert committed(world, "g") == {ORDERS: 5}
    world.pass_time(CHECK_MS + 1)
    assert committed(world, "g") == {}
    assert listed(world) == []


def test_a_group_whose_last_member_fell_silent_keeps_them_from_the_end_of_its_session(
    world: GroupWorld,
) -> None:
    consumer = ModernConsumer(world, "g", "m", topics=("orders",))
    consumer.act()
    commit(world, commit_request("g", {ORDERS: 5}, member="m", epoch=consumer.epoch))
    session_ms = world.settings.group_consumer_session_timeout_ms
    world.pass_time(session_ms)
    assert [group.group_state for group in listed(world)] == ["Empty"]
    world.pass_time(RETENTION_MS - 1)
    assert committed(world, "g") == {ORDERS: 5}
    world.pass_time(CHECK_MS + 1)
    assert committed(world, "g") == {}


def test_a_failover_changes_nothing_about_when_the_last_member_left(world: GroupWorld) -> None:
    leave_after_a_long_time(world)
    world.pass_time(RETENTION_MS - CHECK_MS)
    world.fail_over()
    world.pass_time(CHECK_MS - 1)
    assert committed(world, "g") == {ORDERS: 5}
    world.pass_time(CHECK_MS + 1)
    assert committed(world, "g") == {}


def test_members_keep_the_offsets_of_what_they_read_and_no_others(world: GroupWorld) -> None:
    commit(world, commit_request("g", {("orders", 1): 5, BILLS: 6}))
    member, epoch = join_alone(world, "g", topics=["orders"])
    beat(world, "g", member, epoch, for_ms=RETENTION_MS + CHECK_MS)
    assert committed(world, "g") == {("orders", 1): 5, ORDERS: 1}


def test_a_failover_changes_nothing_about_when_offsets_expire(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    world.pass_time(RETENTION_MS - CHECK_MS)
    world.fail_over()
    world.pass_time(CHECK_MS - 1)
    assert committed(world, "g") == {ORDERS: 5}
    world.pass_time(CHECK_MS + 1)
    assert committed(world, "g") == {}


def test_a_client_of_old_decides_itself_how_long_its_offsets_are_kept(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}, retention_ms=MINUTE_MS), version=4)
    commit(world, commit_request("g", {BILLS: 6}, retention_ms=5 * RETENTION_MS), version=4)
    world.pass_time(CHECK_MS + MINUTE_MS)
    assert committed(world, "g") == {BILLS: 6}
    world.pass_time(2 * RETENTION_MS)
    assert committed(world, "g") == {BILLS: 6}
    world.pass_time(3 * RETENTION_MS)
    assert committed(world, "g") == {}


def test_offsets_of_a_topic_whose_deletion_a_coordinator_did_not_survive_expire(
    world: GroupWorld,
) -> None:
    commit(world, commit_request("g", {ORDERS: 5, BILLS: 6}))
    known = world.image
    world.image = replace(
        known,
        topics_by_name={"bills": known.topics_by_name["bills"]},
        topics_by_id={known.topics_by_name["bills"].topic_id: known.topics_by_name["bills"]},
    )
    world.fail_over()
    assert committed(world, "g") == {ORDERS: 5, BILLS: 6}
    world.pass_time(CHECK_MS)
    assert committed(world, "g") == {BILLS: 6}


def test_they_expire_too_when_members_read_a_new_topic_of_that_name(world: GroupWorld) -> None:
    member, epoch = join_alone(world, "g", topics=["orders"])
    commit(world, commit_request("g", {ORDERS: 5, ("orders", 2): 7}, member=member, epoch=epoch))
    old = world.image.topics_by_name["orders"]
    new = replace(old, topic_id=TopicId(bytes(15) + b"n"))
    world.image = replace(
        world.image,
        topics_by_name={**world.image.topics_by_name, "orders": new},
        topics_by_id={new.topic_id: new},
    )
    world.fail_over()
    beat(world, "g", member, epoch, for_ms=CHECK_MS)
    assert committed(world, "g") == {ORDERS: 1}
    assert world.shard.offsets.count == 1


def test_an_empty_group_without_offsets_is_removed(world: GroupWorld) -> None:
    member, _ = join_alone(world, "g", topics=["orders"])
    leave(world, "g", member)
    world.pass_time(CHECK_MS)
    assert listed(world) == []
    world.fail_over()
    assert listed(world) == []


def test_a_round_over_very_many_offsets_takes_several_steps() -> None:
    count = 2 * EXPIRY_ENTRIES_PER_STEP
    world = GroupWorld(SETTINGS, image=image_of({"wide": 4000}))
    for group in range(count // 4000 + 1):
        places = {("wide", index): 1 for index in range(4000)}
        commit(world, commit_request(f"g{group}", places))
    world.pass_time(RETENTION_MS + CHECK_MS)
    assert world.shard.offsets.count == 0
    assert listed(world) == []


def test_what_members_read_is_found_out_once_for_all_offsets() -> None:
    """Whether an offset is still read is asked of each of them, every round."""
    topics = {f"t{number}": 10 for number in range(20)}
    world = GroupWorld(SETTINGS, image_of({"orders": 1} | topics))
    member, epoch = join_alone(world, "g", topics=["orders"])
    offsets = {(topic, index): 5 for topic in topics for index in range(10)}
    commit(world, commit_request("g", offsets, member=member, epoch=epoch))
    round_of_expiry = partial(
        decide_expiry,
        world.shard.groups,
        world.shard.offsets,
        world.shard.pending,
        (),
        world.context(),
    )
    assert count_calls(read_embedded, round_of_expiry) == 1


def test_what_members_read_is_found_out_once_to_delete_many_offsets(world: GroupWorld) -> None:
    join_alone(world, "g", topics=["orders"])
    topic = OffsetDeleteRequestTopic(
        name="bills",
        partitions=[OffsetDeleteRequestPartition(partition_index=0) for _ in range(100)],
    )
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    assert count_calls(read_embedded, lambda: world.ask(request, version=0)) == 1

"""Whoever asks for offsets gets those of the topics that exist now, by name or by id."""

import pytest

from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from rig.group_world import GroupWorld, image_of
from rig.offset_requests import commit, commit_request, committed, fetch, fetch_reply

ORDERS = ("orders", 0)
BY_ID = 10


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(image=image_of({"orders": 3, "bills": 1}))


def without_topics(world: GroupWorld) -> None:
    world.image = Image()


def test_nothing_committed_is_no_error(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    for group, place in [("g", ("orders", 1)), ("g", ("nowhere", 0)), ("other", ORDERS)]:
        found = fetch(world, group, [place])[place]
        assert found.committed_offset == -1
        assert found.committed_leader_epoch == -1
        assert found.metadata == ""
        assert found.error_code == ErrorCode.NONE


def test_a_group_that_is_not_there_has_no_topics(world: GroupWorld) -> None:
    assert committed(world, "g") == {}


def test_by_id_unknown_topics_are_told_so(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    orders = world.image.topics_by_name["orders"].topic_id
    request = OffsetFetchRequestGroup(
        group_id="g",
        topics=[
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
            for topic_id in (orders, bytes(15) + b"\xff")
        ],
    )
    reply = fetch_reply(world, request, version=BY_ID)
    found = [(topic.topic_id, topic.partitions[0]) for topic in reply.topics]
    assert [topic_id for topic_id, _ in found] == [orders, bytes(15) + b"\xff"]
    assert found[0][1].committed_offset == 5
    assert found[1][1].committed_offset == -1
    assert found[1][1].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_all_topics_come_with_their_ids(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5, ("bills", 0): 6}))
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    reply = fetch_reply(world, request, version=BY_ID)
    assert [topic.topic_id for topic in reply.topics] == [
        world.image.topics_by_name[name].topic_id for name in ("orders", "bills")
    ]


def test_offsets_of_a_topic_that_is_gone_are_told_by_name_alone(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    without_topics(world)
    assert committed(world, "g") == {ORDERS: 5}
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert fetch_reply(world, request, version=BY_ID).topics == []


def test_a_topic_made_anew_does_not_begin_with_the_offsets_of_the_old_one(
    world: GroupWorld,
) -> None:
    commit(world, commit_request("g", {ORDERS: 500}))
    world.image = image_of({"another": 1, "orders": 3})  # the same name under another id
    assert fetch(world, "g", [ORDERS])[ORDERS].committed_offset == -1
    assert committed(world, "g") == {}
    commit(world, commit_request("g", {ORDERS: 1}))
    assert committed(world, "g") == {ORDERS: 1}

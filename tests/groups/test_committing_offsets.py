"""Offsets are kept as they were committed; what cannot be is refused for its own place alone."""

import pytest

from penstock.model.error import ErrorCode
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from rig.group_world import GroupWorld, image_of
from rig.offset_requests import commit, commit_request, committed, fetch

ORDERS = ("orders", 0)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(image=image_of({"orders": 3, "bills": 1}))


def test_a_consumer_without_a_group_commits_and_reads_back(world: GroupWorld) -> None:
    answer = commit(world, commit_request("g", {ORDERS: 5, ("bills", 0): 7}))
    assert answer == {ORDERS: ErrorCode.NONE, ("bills", 0): ErrorCode.NONE}
    assert committed(world, "g") == {ORDERS: 5, ("bills", 0): 7}


def test_the_last_commit_counts_even_when_it_goes_back(world: GroupWorld) -> None:
    for offset in (5, 9, 2):
        commit(world, commit_request("g", {ORDERS: offset}))
    assert committed(world, "g") == {ORDERS: 2}


def test_groups_do_not_see_each_others_offsets(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    commit(world, commit_request("h", {ORDERS: 6}))
    assert committed(world, "g") == {ORDERS: 5}
    assert committed(world, "h") == {ORDERS: 6}


def test_metadata_and_leader_epoch_are_kept(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}, metadata="half way", leader_epoch=3))
    found = fetch(world, "g", [ORDERS])[ORDERS]
    assert (found.metadata, found.committed_leader_epoch) == ("half way", 3)


def test_no_metadata_is_empty_metadata(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}, metadata=None))
    found = fetch(world, "g", [ORDERS])[ORDERS]
    assert (found.metadata, found.committed_leader_epoch) == ("", -1)


def test_a_partition_that_is_not_there_is_refused_and_the_others_are_kept(
    world: GroupWorld,
) -> None:
    places = {ORDERS: 1, ("orders", 3): 1, ("orders", -1): 1, ("nowhere", 0): 1}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(world, commit_request("g", places)) == {
        ORDERS: ErrorCode.NONE,
        ("orders", 3): unknown,
        ("orders", -1): unknown,
        ("nowhere", 0): unknown,
    }
    assert committed(world, "g") == {ORDERS: 1}


def test_metadata_over_the_limit_is_refused_and_changes_nothing(world: GroupWorld) -> None:
    for metadata, code in [
        ("x" * 4096, ErrorCode.NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("x" * (10 * 2**20), ErrorCode.OFFSET_METADATA_TOO_LARGE),
        # Java counts a character beyond the first plane as two.
        ("\U0001f600" * 2048, ErrorCode.NONE),
        ("\U0001f600" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ]:
        before = committed(world, "g")
        offset = len(world.journal.batches) + 100
        answer = commit(world, commit_request("g", {ORDERS: offset}, metadata=metadata))
        assert answer == {ORDERS: code}
        expected = {ORDERS: offset} if code is ErrorCode.NONE else before
        assert committed(world, "g") == expected


@pytest.mark.parametrize(
    ("version", "code"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_a_group_that_is_not_there_is_refused(
    world: GroupWorld, version: int, code: ErrorCode
) -> None:
    request = commit_request("g", {ORDERS: 5}, member="m", epoch=1)
    assert commit(world, request, version=version) == {ORDERS: code}
    assert not world.journal.batches


def test_unknown_topics_are_told_even_to_a_stranger(world: GroupWorld) -> None:
    request = commit_request("g", {ORDERS: 5, ("nowhere", 0): 1}, member="m", epoch=1)
    assert commit(world, request) == {
        ORDERS: ErrorCode.GROUP_ID_NOT_FOUND,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_topics_go_by_id_from_version_10_on(world: GroupWorld) -> None:
    orders = world.image.topics_by_name["orders"].topic_id
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[OffsetCommitRequestPartition(committed_offset=5)],
            )
            for topic_id in (orders, bytes(15) + b"\xff", bytes(16))
        ],
    )
    reply = world.answers[world.ask(request, version=10)]
    assert isinstance(reply, OffsetCommitResponse)
    codes = [(topic.topic_id, topic.partitions[0].error_code) for topic in reply.topics]
    assert codes == [
        (orders, ErrorCode.NONE),
        (bytes(15) + b"\xff", ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert committed(world, "g") == {ORDERS: 5}


def test_more_offsets_than_one_batch_may_hold_are_refused_whole() -> None:
    count = DECISION_RECORDS_MAX + 1
    world = GroupWorld(image=image_of({"wide": count}))
    answer = commit(world, commit_request("g", {("wide", index): 1 for index in range(count)}))
    assert set(answer.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert committed(world, "g") == {}


@pytest.mark.parametrize("retention_ms", [-(2**63), -2, 0, 2**63 - 1])
def test_a_strange_retention_time_is_kept_within_bounds(
    world: GroupWorld, retention_ms: int
) -> None:
    request = commit_request("g", {ORDERS: 5}, retention_ms=retention_ms)
    assert commit(world, request, version=4) == {ORDERS: ErrorCode.NONE}
    world.fail_over()
    assert committed(world, "g") == {ORDERS: 5}

"""Deleted offsets and groups are gone, also after a failover; what is in use is not deleted."""

import pytest

from penstock.groups.offsets.delete import OFFSETS_PER_STEP, DeleteGroup
from penstock.groups.offsets.transactional import FetchStableOffsets
from penstock.model.error import ErrorCode
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.delete_groups import DeletableGroupResult
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from rig.group_world import GroupWorld, image_of
from rig.offset_requests import (
    commit,
    commit_request,
    committed,
    delete_group,
    delete_offsets,
    forget_topic,
    join_alone,
    leave,
    listed,
)

ORDERS = ("orders", 0)
BILLS = ("bills", 0)
MANY = 2 * OFFSETS_PER_STEP + 100
PROMISE = TxnOffsetCommitRequest(
    transactional_id="t",
    group_id="g",
    producer_id=1,
    producer_epoch=0,
    topics=[
        TxnOffsetCommitRequestTopic(
            name="wide",
            partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
        )
    ],
)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(image=image_of({"orders": 3, "bills": 1}))


def with_many_offsets() -> GroupWorld:
    world = GroupWorld(image=image_of({"wide": MANY}))
    for first in range(0, MANY, DECISION_RECORDS_MAX):
        indexes = range(first, min(first + DECISION_RECORDS_MAX, MANY))
        commit(world, commit_request("g", {("wide", index): 1 for index in indexes}))
    assert world.shard.offsets.count == MANY
    return world


def test_a_deleted_offset_is_gone_for_good(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5, BILLS: 6}))
    reply = delete_offsets(world, "g", [ORDERS, ("orders", 1)])
    assert [part.error_code for part in reply.topics[0].partitions] == [0, 0]
    world.fail_over()
    assert committed(world, "g") == {BILLS: 6}


def test_offsets_that_are_not_there_cost_the_journal_nothing(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    before = len(world.journal.batches)
    delete_offsets(world, "g", [("orders", 1), ("orders", 2)])
    assert len(world.journal.batches) == before


def test_offsets_of_a_group_that_is_not_there_are_not_deleted(world: GroupWorld) -> None:
    reply = delete_offsets(world, "g", [ORDERS])
    assert (reply.error_code, reply.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_unknown_partitions_are_told_one_by_one(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    reply = delete_offsets(world, "g", [("orders", 3), ("nowhere", 0)])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [topic.partitions[0].error_code for topic in reply.topics] == [unknown, unknown]


def test_members_keep_the_offsets_of_what_they_read(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5, BILLS: 6}))
    join_alone(world, "g", topics=["orders"])
    reply = delete_offsets(world, "g", [ORDERS, BILLS])
    assert [topic.partitions[0].error_code for topic in reply.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert committed(world, "g") == {ORDERS: 5}


def test_a_group_with_members_is_not_deleted(world: GroupWorld) -> None:
    member, generation = join_alone(world, "g", topics=["orders"])
    commit(world, commit_request("g", {ORDERS: 5}, member=member, epoch=generation))
    assert delete_group(world, "g") is ErrorCode.NON_EMPTY_GROUP
    leave(world, "g", member)
    assert delete_group(world, "g") is ErrorCode.NONE
    assert listed(world) == []
    world.fail_over()
    assert listed(world) == []
    assert committed(world, "g") == {}


def test_a_group_that_is_not_there_cannot_be_deleted(world: GroupWorld) -> None:
    assert delete_group(world, "g") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_group_may_begin_anew(world: GroupWorld) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    delete_group(world, "g")
    commit(world, commit_request("g", {BILLS: 1}))
    world.fail_over()
    assert committed(world, "g") == {BILLS: 1}


def test_a_group_with_very_many_offsets_is_deleted_in_steps() -> None:
    world = with_many_offsets()
    assert delete_group(world, "g") is ErrorCode.NONE
    assert world.shard.offsets.count == 0
    assert listed(world) == []


def test_nobody_comes_to_life_in_a_group_that_is_half_deleted() -> None:
    world = with_many_offsets()
    deleting = world.ask(DeleteGroup(group="g"), version=2)
    assert deleting not in world.answers, "there are steps to come"
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["wide"],
        topic_partitions=[],
    )
    joined = world.answers[world.ask(join, version=3)]
    begun = world.answers[world.ask(beat, version=1)]
    again = world.answers[world.ask(DeleteGroup(group="g"), version=2)]
    assert isinstance(joined, JoinGroupResponse)
    assert isinstance(begun, ConsumerGroupHeartbeatResponse)
    assert isinstance(again, DeletableGroupResult)
    codes = [joined.error_code, begun.error_code, again.error_code]
    codes += commit(world, commit_request("g", {("wide", 0): 7})).values()
    promised = world.answers[world.ask(PROMISE, version=3)]
    assert isinstance(promised, TxnOffsetCommitResponse)
    codes += [promised.topics[0].partitions[0].error_code]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 5
    world.pass_time(100)
    assert world.answers[deleting] == DeletableGroupResult(group_id="g")
    assert world.shard.offsets.count == 0
    assert commit(world, commit_request("g", {("wide", 0): 7})) == {("wide", 0): ErrorCode.NONE}


@pytest.mark.parametrize("stable", [False, True])
def test_nobody_reads_the_offsets_of_a_group_that_is_half_deleted(stable: bool) -> None:
    world = with_many_offsets()
    world.ask(DeleteGroup(group="g"), version=2)
    fetch = OffsetFetchRequestGroup(group_id="g", topics=None)
    asked = world.ask(FetchStableOffsets(request=fetch) if stable else fetch, version=9)
    refused = OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.answers[asked] == refused


def test_what_a_failover_leaves_of_a_group_that_was_being_deleted_can_be_deleted() -> None:
    world = with_many_offsets()
    world.ask(DeleteGroup(group="g"), version=2)
    world.fail_over()
    assert 0 < world.shard.offsets.count < MANY
    assert delete_group(world, "g") is ErrorCode.NONE
    assert listed(world) == []


def test_the_offsets_of_a_deleted_topic_go_with_it(world: GroupWorld) -> None:
    for group in ("g", "h"):
        commit(world, commit_request(group, {ORDERS: 5, BILLS: 6}))
    forget_topic(world, "orders")
    world.fail_over()
    assert committed(world, "g") == committed(world, "h") == {BILLS: 6}


def test_very_many_offsets_of_a_deleted_topic_go_in_steps() -> None:
    world = with_many_offsets()
    forget_topic(world, "wide")
    assert world.shard.offsets.count == 0


def test_offsets_of_a_topic_made_anew_outlive_the_deletion_of_the_old_one(
    world: GroupWorld,
) -> None:
    old = world.image
    world.image = image_of({"another": 1, "orders": 3})
    commit(world, commit_request("g", {ORDERS: 5}))
    new, world.image = world.image, old
    forget_topic(world, "orders")
    world.image = new
    assert committed(world, "g") == {ORDERS: 5}


def test_groups_are_listed_by_state_and_type(world: GroupWorld) -> None:
    commit(world, commit_request("tool", {ORDERS: 5}))
    join_alone(world, "service", topics=["orders"])
    assert [
        (group.group_id, group.group_state, group.protocol_type) for group in listed(world)
    ] == [
        ("tool", "Empty", ""),
        ("service", "Stable", "consumer"),
    ]
    assert [group.group_id for group in listed(world, states=["sTable"])] == ["service"]
    assert [group.group_id for group in listed(world, states=["Dead"])] == []
    assert len(listed(world, types=["Classic"])) == 2
    assert listed(world, types=["consumer"]) == []
    assert listed(world, types=["no such type"]) == []

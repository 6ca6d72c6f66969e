"""Offsets that wait for the end of their transaction are deleted with the others, and for good."""

import pytest

from penstock.groups.offsets.delete import OFFSETS_PER_STEP
from penstock.groups.offsets.transactional import EndTransaction
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from rig.group_world import GroupWorld, image_of
from rig.offset_requests import (
    Place,
    commit,
    commit_request,
    committed,
    delete_group,
    delete_offsets,
    forget_topic,
    listed,
)

ORDERS = ("orders", 0)
BILLS = ("bills", 0)
RETENTION_MS = 3_600_000
CHECK_MS = 600_000
WIDE = OFFSETS_PER_STEP + 10


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(
        {"offsets.retention.minutes": "60"},
        image=image_of({"orders": 3, "bills": 1, "wide": WIDE}),
    )


def promise(world: GroupWorld, offsets: dict[Place, int], *, producer: int = 1) -> None:
    """TxnOffsetCommit: the offsets count once the producer's transaction is committed."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic)).partitions.append(
            TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=producer,
        producer_epoch=0,
        topics=list(topics.values()),
    )
    reply = world.answers[world.ask(request, version=3)]
    assert isinstance(reply, TxnOffsetCommitResponse)
    for answer in reply.topics:
        assert all(one.error_code == ErrorCode.NONE for one in answer.partitions)


def end(world: GroupWorld, *, producer: int = 1, committed: bool = True) -> None:
    marker = EndTransaction(
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=committed,
    )
    assert world.answers[world.ask(marker, version=0)] is True


def names(world: GroupWorld) -> list[str]:
    return [group.group_id for group in listed(world)]


@pytest.mark.parametrize("fails_over", [False, True])
def test_a_marker_does_not_bring_a_deleted_group_back(world: GroupWorld, fails_over: bool) -> None:
    commit(world, commit_request("g", {ORDERS: 5}))
    promise(world, {ORDERS: 7, BILLS: 8})
    assert delete_group(world, "g") is ErrorCode.NONE
    if fails_over:
        world.fail_over()
    end(world)
    assert names(world) == []
    assert committed(world, "g") == {}
    world.fail_over()
    assert names(world) == []


def test_a_group_that_has_only_pending_offsets_is_there_and_can_be_deleted(
    world: GroupWorld,
) -> None:
    promise(world, {ORDERS: 7})
    assert names(world) == ["g"]
    world.fail_over()
    assert names(world) == ["g"]
    assert delete_group(world, "g") is ErrorCode.NONE
    end(world)
    assert names(world) == []


def test_very_many_pending_offsets_of_a_group_are_deleted_in_steps(world: GroupWorld) -> None:
    half = WIDE // 2
    promise(world, {("wide", index): 1 for index in range(half)}, producer=1)
    promise(world, {("wide", index): 2 for index in range(half, WIDE)}, producer=2)
    assert delete_group(world, "g") is ErrorCode.NONE
    for producer in (1, 2):
        end(world, producer=producer)
    assert names(world) == []


def test_what_is_promised_after_the_deletion_counts(world: GroupWorld) -> None:
    promise(world, {ORDERS: 7})
    delete_group(world, "g")
    promise(world, {BILLS: 8})
    end(world)
    assert committed(world, "g") == {BILLS: 8}


def test_a_pending_offset_is_deleted_alone(world: GroupWorld) -> None:
    promise(world, {ORDERS: 7, BILLS: 8})
    reply = delete_offsets(world, "g", [ORDERS])
    assert reply.error_code == reply.topics[0].partitions[0].error_code == ErrorCode.NONE
    world.fail_over()
    end(world)
    assert committed(world, "g") == {BILLS: 8}


def test_pending_offsets_of_a_deleted_topic_go_with_it(world: GroupWorld) -> None:
    promise(world, {ORDERS: 7, BILLS: 8})
    forget_topic(world, "orders")
    end(world)
    assert committed(world, "g") == {BILLS: 8}


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_a_transaction_is_about_to_renew_does_not_expire(
    world: GroupWorld, is_committed: bool
) -> None:
    commit(world, commit_request("g", {ORDERS: 5, BILLS: 6}))
    world.pass_time(RETENTION_MS - CHECK_MS)
    promise(world, {ORDERS: 7})
    world.pass_time(2 * RETENTION_MS)
    assert committed(world, "g") == {ORDERS: 5}
    end(world, committed=is_committed)
    assert committed(world, "g") == {ORDERS: 7 if is_committed else 5}
    world.pass_time(RETENTION_MS + CHECK_MS)
    assert names(world) == []


def test_a_group_whose_only_offsets_are_pending_does_not_expire(world: GroupWorld) -> None:
    promise(world, {ORDERS: 7})
    world.pass_time(3 * RETENTION_MS)
    assert names(world) == ["g"]
    end(world, committed=False)
    world.pass_time(CHECK_MS)
    assert names(world) == []

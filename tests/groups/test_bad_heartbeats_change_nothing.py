"""What is wrong in a ConsumerGroupHeartbeat is answered as by Apache Kafka 4.3, without effect."""

from typing import Any

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from rig.group_world import GroupWorld

JOIN: dict[str, Any] = {
    "group_id": "orders",
    "member_id": "a",
    "member_epoch": 0,
    "rebalance_timeout_ms": 5000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
STAY: dict[str, Any] = {"group_id": "orders", "member_id": "a", "member_epoch": 2}
OWNED = [TopicPartitions(topic_id=bytes(16), partitions=[0])]

WRONG_BY_ITSELF = [
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ({"member_epoch": -(2**31)}, "MemberEpoch is invalid."),
    ({"instance_id": ""}, "InstanceId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ({"topic_partitions": OWNED}, "TopicPartitions must be empty when (re-)joining."),
    (
        {"subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
]
WRONG_FOR_THE_GROUP = [
    ({"member_id": "b"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_epoch": -1, "member_id": "b"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_epoch": -1, "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
    ({"group_id": "other", "member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ({"member_epoch": 3}, ErrorCode.FENCED_MEMBER_EPOCH),
    ({"member_epoch": 1}, ErrorCode.FENCED_MEMBER_EPOCH),
    ({"server_assignor": "none such"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ({"subscribed_topic_regex": "(a)\\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ({"subscribed_topic_regex": "a{1000}" * 1000}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ({"subscribed_topic_regex": "(" * 10_000}, ErrorCode.INVALID_REGULAR_EXPRESSION),
]


def heartbeat(
    world: GroupWorld, fields: dict[str, Any], *, version: int = 1
) -> ConsumerGroupHeartbeatResponse:
    ticket = world.ask(ConsumerGroupHeartbeatRequest(**fields), version=version)
    reply = world.answers[ticket]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply


@pytest.mark.parametrize(("wrong", "message"), WRONG_BY_ITSELF)
def test_a_request_that_is_wrong_by_itself_is_invalid(wrong: dict[str, Any], message: str) -> None:
    world = GroupWorld()
    reply = heartbeat(world, {**JOIN, **wrong})
    assert (reply.error_code, reply.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not world.journal.batches
    assert not world.shard.groups


@pytest.mark.parametrize(("wrong", "code"), WRONG_FOR_THE_GROUP)
def test_a_heartbeat_that_is_not_a_member_s_changes_nothing(
    wrong: dict[str, Any], code: ErrorCode
) -> None:
    world = GroupWorld()
    assert heartbeat(world, JOIN).member_epoch == 2
    journalled, deadlines = len(world.journal.batches), len(world.shard.deadlines)
    reply = heartbeat(world, {**STAY, **wrong})
    assert reply.error_code == code
    assert reply.error_message
    assert len(world.journal.batches) == journalled
    assert len(world.shard.deadlines) == deadlines
    assert heartbeat(world, STAY).error_code == ErrorCode.NONE


def test_version_0_gives_a_member_its_id() -> None:
    world = GroupWorld()
    reply = heartbeat(world, {**JOIN, "member_id": ""}, version=0)
    assert reply.error_code == ErrorCode.NONE
    assert reply.member_id


def test_topics_that_are_named_twice_are_subscribed_once() -> None:
    world = GroupWorld()
    reply = heartbeat(world, {**JOIN, "subscribed_topic_names": ["t", "t"]})
    assert reply.assignment is not None
    assert [topic.partitions for topic in reply.assignment.topic_partitions] == [[0]]


def test_partitions_that_nobody_was_given_may_be_reported() -> None:
    world = GroupWorld()
    heartbeat(world, JOIN)
    reply = heartbeat(world, {**STAY, "topic_partitions": OWNED})
    assert (reply.error_code, reply.member_epoch) == (ErrorCode.NONE, 2)

"""CreatePartitions: topics grow, and what is there stays as it is."""

import pytest

from penstock.model.error import ErrorCode, RequestError
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from rig.cluster import Cluster


def grow(
    cluster: Cluster, *topics: CreatePartitionsTopic, only_validate: bool = False
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=only_validate)
    reply = cluster.ask(request)
    assert isinstance(reply, CreatePartitionsResponse)
    return reply.results


def to(count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    by_hand = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    return CreatePartitionsTopic(name="orders", count=count, assignments=by_hand or None)


def test_a_topic_grows_and_keeps_what_it_has() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("orders", partitions=2, replicas=2)
    before = cluster.topic("orders").partitions
    (result,) = grow(cluster, to(5))
    assert result.error_code == ErrorCode.NONE
    after = cluster.topic("orders").partitions
    assert after[:2] == before
    assert len(after) == 5
    assert all(len(partition.replicas) == 2 for partition in after)


def test_leaders_stay_spread_when_a_topic_grows_step_by_step() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("orders", partitions=1)
    for count in range(2, 10):
        grow(cluster, to(count))
    leaders = [partition.leader for partition in cluster.topic("orders").partitions]
    assert [leaders.count(node) for node in cluster.image.brokers] == [3, 3, 3]


def test_new_partitions_can_be_assigned_by_hand() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("orders", partitions=1, replicas=2)
    grow(cluster, to(3, [3, 1], [2, 3]))
    assert cluster.topic("orders").partitions[1].replicas == (3, 1)
    assert cluster.topic("orders").partitions[2].leader == 2


def test_validation_alone_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("orders")
    (result,) = grow(cluster, to(3), only_validate=True)
    assert result.error_code == ErrorCode.NONE
    assert len(cluster.topic("orders").partitions) == 1


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (to(2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            to(1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            to(4, [1]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (to(3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
        (
            CreatePartitionsTopic(name="nowhere", count=3, assignments=None),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "does not host",
        ),
    ],
)
def test_growth_that_makes_no_sense_is_refused(
    topic: CreatePartitionsTopic, code: ErrorCode, message: str
) -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=2)
    (result,) = grow(cluster, topic)
    assert result.error_code == code
    assert message in (result.error_message or "")
    assert len(cluster.topic("orders").partitions) == 2


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
@pytest.mark.parametrize("assignments", [None, [[1]]])
def test_internal_topics_do_not_grow(name: str, assignments: list[list[int]] | None) -> None:
    cluster = Cluster()
    cluster.create(name, partitions=2)
    by_hand = assignments and [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    (result,) = grow(cluster, CreatePartitionsTopic(name=name, count=3, assignments=by_hand))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert name in (result.error_message or "")
    assert len(cluster.topic(name).partitions) == 2


def test_a_topic_named_twice_does_not_grow() -> None:
    cluster = Cluster()
    cluster.create("orders")
    (result,) = grow(cluster, to(2), to(3))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert len(cluster.topic("orders").partitions) == 1


def test_growth_beyond_one_batch_is_refused_before_any_work() -> None:
    cluster = Cluster()
    cluster.create("orders")
    with pytest.raises(RequestError) as error:
        grow(cluster, to(2**31 - 1))
    assert error.value.code == ErrorCode.POLICY_VIOLATION

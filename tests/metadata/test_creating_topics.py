"""CreateTopics, as a Kafka user knows it."""

import pytest

from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from rig.cluster import Cluster


def ask(
    cluster: Cluster, *topics: CreatableTopic, only_validate: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=only_validate)
    reply = cluster.ask(request)
    assert isinstance(reply, CreateTopicsResponse)
    return reply.topics


def assigned(*partitions: tuple[int, list[int]]) -> CreatableTopic:
    return CreatableTopic(
        name="orders",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in partitions
        ],
    )


def test_a_topic_gets_the_partitions_it_asks_for() -> None:
    cluster = Cluster()
    topic_id = cluster.create("orders", partitions=6)
    topic = cluster.topic("orders")
    assert topic.topic_id == topic_id
    assert len(topic.partitions) == 6
    assert all(partition.leader == 1 for partition in topic.partitions)
    assert all(partition.leader_epoch == 0 for partition in topic.partitions)
    assert all(partition.isr == partition.replicas == (1,) for partition in topic.partitions)


def test_what_is_left_open_comes_from_the_settings() -> None:
    cluster = Cluster(brokers=3, num_partitions="4", default_replication_factor="2")
    result = cluster.try_create("orders", partitions=-1, replicas=-1)
    assert (result.num_partitions, result.replication_factor) == (4, 2)
    assert len(cluster.topic("orders").partitions) == 4


def test_the_reply_lists_every_setting_with_its_source() -> None:
    cluster = Cluster()
    result = cluster.try_create("orders", retention_ms="1000")
    configs = {config.name: config for config in result.configs or ()}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)
    assert "internal.segment.bytes" not in configs


def test_its_settings_belong_to_the_topic() -> None:
    cluster = Cluster()
    cluster.create("orders", cleanup_policy="compact")
    config = cluster.image.config(ResourceKind.TOPIC, "orders")
    assert config == {"cleanup.policy": "compact"}


def test_validation_alone_creates_nothing_but_answers_the_same() -> None:
    cluster = Cluster()
    topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
    (result,) = ask(cluster, topic, only_validate=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert cluster.image.topics_by_name == {}


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (
            CreatableTopic(name="a/b", num_partitions=1, replication_factor=1),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "contains one or more characters other than",
        ),
        (
            CreatableTopic(name="..", num_partitions=1, replication_factor=1),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "'.' or '..' is not allowed",
        ),
        (
            CreatableTopic(name="__cluster_metadata", num_partitions=1, replication_factor=1),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            CreatableTopic(name="taken", num_partitions=1, replication_factor=1),
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 'taken' already exists.",
        ),
        (
            CreatableTopic(name="a_b", num_partitions=1, replication_factor=1),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a_b' collides with existing topic: a.b",
        ),
        (
            CreatableTopic(name="x", num_partitions=0, replication_factor=1),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            CreatableTopic(name="x", num_partitions=1, replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            CreatableTopic(name="x", num_partitions=1, replication_factor=2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
            "cannot be reached because only 1 broker(s) are registered.",
        ),
        (
            CreatableTopic(
                name="x",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value=None)],
            ),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            CreatableTopic(
                name="x",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="segment.bytes", value="1")],
            ),
            ErrorCode.INVALID_CONFIG,
            "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            CreatableTopic(
                name="x",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="colour", value="red")],
            ),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: colour",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, CreatableTopic | ErrorCode) else "",
)
def test_a_topic_that_cannot_be_is_refused_and_the_others_are_made(
    topic: CreatableTopic, code: ErrorCode, message: str
) -> None:
    cluster = Cluster()
    cluster.create("taken")
    cluster.create("a.b")
    good = CreatableTopic(name="good", num_partitions=1, replication_factor=1)
    refused, made = ask(cluster, topic, good)
    assert (refused.error_code, refused.name) == (code, topic.name)
    assert message in (refused.error_message or "")
    assert made.error_code == ErrorCode.NONE
    assert set(cluster.image.topics_by_name) == {"taken", "a.b", "good"}


def test_names_that_collide_within_one_request_are_refused_but_the_first() -> None:
    cluster = Cluster()
    first, second = ask(
        cluster,
        CreatableTopic(name="a.b", num_partitions=1, replication_factor=1),
        CreatableTopic(name="a_b", num_partitions=1, replication_factor=1),
    )
    assert first.error_code == ErrorCode.NONE
    assert second.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_given_twice_creates_nothing() -> None:
    cluster = Cluster()
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    (result,) = ask(cluster, topic, topic)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Duplicate topic name."
    assert cluster.image.topics_by_name == {}


def test_replicas_assigned_by_hand_are_taken_as_they_are() -> None:
    cluster = Cluster(brokers=3)
    (result,) = ask(cluster, assigned((1, [2, 3]), (0, [3, 1])))
    assert result.error_code == ErrorCode.NONE
    replicas = [partition.replicas for partition in cluster.topic("orders").partitions]
    assert replicas == [(3, 1), (2, 3)]
    assert [partition.leader for partition in cluster.topic("orders").partitions] == [3, 2]


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (assigned((0, [])), "includes an empty replica list"),
        (assigned((0, [9])), "includes broker 9, but no such broker is registered"),
        (assigned((0, [1, 1])), "includes the broker 1 more than once"),
        (assigned((0, [1]), (1, [1, 2])), "not consistent with previous partitions"),
        (assigned((0, [1]), (2, [1])), "consecutive 0-based integer sequence"),
        (assigned((0, [1]), (0, [2])), "multiple manual partition assignments for partition 0"),
        (assigned((-1, [1])), "consecutive 0-based integer sequence"),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused(topic: CreatableTopic, message: str) -> None:
    (result,) = ask(Cluster(brokers=3), topic)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message in (result.error_message or "")


def test_an_assignment_by_hand_allows_no_counts_beside_it() -> None:
    topic = assigned((0, [1]))
    topic.num_partitions = 1
    (result,) = ask(Cluster(), topic)
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_only_fenced_brokers_cannot_take_a_topic() -> None:
    cluster = Cluster()
    cluster.register(NodeId(1), incarnation=1)
    result = cluster.try_create("orders")
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "All brokers are currently fenced." in (result.error_message or "")


@pytest.mark.parametrize("partitions", [DECISION_RECORDS_MAX, 2**31 - 1])
def test_more_than_one_batch_can_hold_is_refused_before_any_work(partitions: int) -> None:
    cluster = Cluster()
    with pytest.raises(RequestError) as error:
        cluster.try_create("orders", partitions=partitions)
    assert error.value.code == ErrorCode.POLICY_VIOLATION


def test_the_largest_topic_that_fits_is_made() -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=DECISION_RECORDS_MAX - 1)
    assert len(cluster.topic("orders").partitions) == DECISION_RECORDS_MAX - 1


def proposed(name: str, topic_id: bytes) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=2, replication_factor=1, proposed_id=topic_id)


def test_a_request_that_is_sent_twice_makes_its_topic_once_and_is_told_so_twice() -> None:
    cluster = Cluster()
    (first,) = ask(cluster, proposed("orders", b"a" * 16))
    offset = cluster.image.offset
    (second,) = ask(cluster, proposed("orders", b"a" * 16))
    assert first.topic_id == b"a" * 16
    assert second == first
    assert cluster.image.offset == offset, "nothing was written"


def test_another_request_for_the_same_name_is_refused() -> None:
    cluster = Cluster()
    ask(cluster, proposed("orders", b"a" * 16))
    (other,) = ask(cluster, proposed("orders", b"b" * 16))
    assert other.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_proposed_id_that_another_topic_has_is_not_used() -> None:
    cluster = Cluster()
    ask(cluster, proposed("orders", b"a" * 16))
    (other,) = ask(cluster, proposed("payments", b"a" * 16))
    assert (other.error_code, other.topic_id == b"a" * 16) == (ErrorCode.NONE, False)

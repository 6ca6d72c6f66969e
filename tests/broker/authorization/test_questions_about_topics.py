"""What is answered when rights are not the trouble, or not all of it, as by Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.security.acl.words import CLUSTER_NAME, AclOperation, ResourceType
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from rig.authorised_node import AuthorisedNode, allow, authorised_node
from rig.dialogue import Dialogue

FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
WAIT_MS = 60_000


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[AuthorisedNode]:
    with authorised_node(tmp_path) as node:
        yield node


@pytest.fixture
def orders(guarded: AuthorisedNode) -> bytes:
    """The id of the topic of that name."""
    guarded.admin.topic = "orders"
    return guarded.admin.create_topic()


@pytest.fixture
def alice(guarded: AuthorisedNode) -> Iterator[Dialogue]:
    talk = guarded.dialogue("alice")
    yield talk
    talk.close()


def metadata(talk: Dialogue, version: int, name: str | None, topic_id: bytes) -> list[object]:
    """What the reply says of the topic, and that the node is still there to say it."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=topic_id)])
    [topic] = talk.exchange(asked, version=version).topics
    talk.exchange(MetadataRequest(topics=[]), version=12)
    return [topic.error_code, topic.name]


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_where_topics_have_names_alone_is_an_invalid_request(
    alice: Dialogue, orders: bytes, version: int
) -> None:
    for topic_id in (orders, bytes(range(16))):
        assert metadata(alice, version, "orders", topic_id) == [ErrorCode.INVALID_REQUEST, "orders"]


def test_an_id_alone_says_which_topic_is_meant(
    guarded: AuthorisedNode, alice: Dialogue, orders: bytes
) -> None:
    guarded.grant(allow("alice", AclOperation.DESCRIBE, ResourceType.TOPIC, "other"))
    assert metadata(alice, 12, "other", orders) == [FAILED, None]
    unknown = metadata(alice, 12, "orders", bytes(range(16)))
    assert unknown == [ErrorCode.UNKNOWN_TOPIC_ID, None]


def deleted(talk: Dialogue, *names: str) -> list[int]:
    topics = [DeleteTopicState(name=name) for name in names]
    reply = talk.exchange(DeleteTopicsRequest(topics=topics, timeout_ms=WAIT_MS), version=6)
    codes = {result.name: result.error_code for result in reply.responses}
    return [codes[name] for name in names]


def test_who_may_describe_topics_learns_that_one_to_delete_is_not_there(
    guarded: AuthorisedNode, alice: Dialogue, orders: bytes
) -> None:
    assert deleted(alice, "orders", "nowhere") == [FAILED, FAILED]
    guarded.grant(allow("alice", AclOperation.DESCRIBE, ResourceType.TOPIC, "*"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert deleted(alice, "orders", "nowhere") == [FAILED, unknown]


def test_who_may_delete_on_the_cluster_may_delete_every_topic(
    guarded: AuthorisedNode, alice: Dialogue, orders: bytes
) -> None:
    guarded.grant(allow("alice", AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME))
    assert deleted(alice, "orders") == [ErrorCode.NONE]


def test_settings_of_what_nobody_knows_are_an_invalid_request(alice: Dialogue) -> None:
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=1, resource_name="x")]
    )
    [result] = alice.exchange(asked, version=4).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("topics", "whole", "parts"),
    [
        ([FetchTopic(topic="orders", partitions=[FetchPartition()])], ErrorCode.NONE, [FAILED]),
        ([], FAILED, []),  # it would go on with another's session
    ],
)
def test_a_follower_that_is_no_node_is_refused_each_partition(
    alice: Dialogue, topics: list[FetchTopic], whole: ErrorCode, parts: list[ErrorCode]
) -> None:
    request = FetchRequest(replica_id=1, session_epoch=-1, topics=topics)
    reply = alice.exchange(request, version=12)
    found = [part.error_code for topic in reply.responses for part in topic.partitions]
    assert (reply.error_code, found) == (whole, parts)

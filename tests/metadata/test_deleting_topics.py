"""DeleteTopics, by name and by id."""

import pytest

from penstock.metadata.image.image import ConfigResource
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from rig.cluster import Cluster


def delete(cluster: Cluster, request: DeleteTopicsRequest) -> list[DeletableTopicResult]:
    reply = cluster.ask(request)
    assert isinstance(reply, DeleteTopicsResponse)
    return reply.responses


def test_a_topic_is_deleted_by_name_with_its_settings() -> None:
    cluster = Cluster()
    topic_id = cluster.create("orders", retention_ms="1")
    (result,) = delete(cluster, DeleteTopicsRequest(topic_names=["orders"]))
    assert (result.name, result.topic_id, result.error_code) == ("orders", topic_id, 0)
    assert cluster.image.topics_by_id == {}
    assert ConfigResource(ResourceKind.TOPIC, "orders") not in cluster.image.configs


def test_a_topic_is_deleted_by_id() -> None:
    cluster = Cluster()
    topic_id = cluster.create("orders")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)])
    (result,) = delete(cluster, request)
    assert (result.name, result.error_code) == ("orders", 0)
    assert cluster.image.topics_by_name == {}


def test_a_topic_of_the_same_name_is_a_new_one() -> None:
    cluster = Cluster()
    first = cluster.create("orders", retention_ms="1")
    delete(cluster, DeleteTopicsRequest(topic_names=["orders"]))
    second = cluster.create("orders")
    assert first != second
    assert ConfigResource(ResourceKind.TOPIC, "orders") not in cluster.image.configs


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([DeleteTopicState(name="nowhere")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([DeleteTopicState(topic_id=b"?" * 16)], ErrorCode.UNKNOWN_TOPIC_ID),
        ([DeleteTopicState()], ErrorCode.INVALID_REQUEST),
        ([DeleteTopicState(name="orders", topic_id=b"?" * 16)], ErrorCode.INVALID_REQUEST),
        ([DeleteTopicState(name="orders")] * 2, ErrorCode.INVALID_REQUEST),
        (
            [DeleteTopicState(name="orders"), DeleteTopicState(topic_id=bytes(15) + b"\1")],
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_doubtful_request_deletes_nothing(
    topics: list[DeleteTopicState], code: ErrorCode
) -> None:
    cluster = Cluster()
    topic_id = cluster.create("orders")
    # The last case names the topic by its name and by its id.
    for topic in topics:
        if topic.topic_id[:15] == bytes(15) and topic.topic_id != bytes(16):
            topic.topic_id = topic_id
    (result,) = delete(cluster, DeleteTopicsRequest(topics=topics))
    assert result.error_code == code
    assert "orders" in cluster.image.topics_by_name


def test_deletion_can_be_switched_off() -> None:
    cluster = Cluster(delete_topic_enable="false")
    cluster.create("orders")
    with pytest.raises(RequestError) as error:
        cluster.ask(DeleteTopicsRequest(topic_names=["orders"]))
    assert error.value.code == ErrorCode.TOPIC_DELETION_DISABLED

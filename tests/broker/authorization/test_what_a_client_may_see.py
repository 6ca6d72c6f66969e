"""A client is shown what it has rights for, and of the rest not even whether it exists."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.messages import description_request
from penstock.security.acl.words import CLUSTER_NAME, AclOperation, ResourceType
from penstock.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.authorised_node import AuthorisedNode, allow, authorised_node
from rig.dialogue import Dialogue
from rig.produced import produced

TOPIC = ResourceType.TOPIC
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[AuthorisedNode]:
    with authorised_node(tmp_path) as node:
        for name in ("orders", "secret"):
            node.admin.topic = name
            node.admin.create_topic()
        yield node


@pytest.fixture
def alice(guarded: AuthorisedNode) -> Iterator[Dialogue]:
    talk = guarded.dialogue("alice")
    yield talk
    talk.close()


def produce_to(*topics: str, acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=produced())]
            )
            for name in topics
        ],
    )


def fetch_of(*topics: str) -> FetchRequest:
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=2**20,
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchTopic(topic=name, partitions=[FetchPartition(partition_max_bytes=2**20)])
            for name in topics
        ],
    )


def codes(talk: Dialogue, request: ProduceRequest | FetchRequest, version: int) -> dict[str, int]:
    """By topic."""
    found = {}
    for topic in talk.exchange(request, version=version).responses:
        if isinstance(request, ProduceRequest):
            [answer] = topic.partition_responses
            found[topic.name] = answer.error_code
        else:
            [answer] = topic.partitions
            found[topic.topic] = answer.error_code
    return found


def seen(talk: Dialogue, request: MetadataRequest, version: int = 8) -> dict[str, int]:
    return {
        topic.name: topic.error_code for topic in talk.exchange(request, version=version).topics
    }


@pytest.mark.parametrize("version", [0, 1, 12])
def test_the_list_of_all_topics_has_those_that_the_client_may_describe(
    guarded: AuthorisedNode, alice: Dialogue, version: int
) -> None:
    every = MetadataRequest(topics=[] if version == 0 else None)
    assert seen(alice, every, version) == {}
    guarded.grant(allow("alice", AclOperation.READ, TOPIC, "orders"))
    assert seen(alice, every, version) == {"orders": ErrorCode.NONE}


def test_a_hidden_topic_is_refused_in_the_same_words_as_one_that_does_not_exist(
    alice: Dialogue,
) -> None:
    named = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("secret", "missing")]
    )
    assert seen(alice, named) == {"secret": FAILED, "missing": FAILED}
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])
            for name in ("secret", "missing")
        ],
    )
    answers = alice.exchange(asked, version=7).topics
    assert [topic.partitions[0].error_code for topic in answers] == [FAILED, FAILED]
    assert codes(alice, produce_to("secret", "missing"), 9) == {"secret": FAILED, "missing": FAILED}
    assert codes(alice, fetch_of("secret", "missing"), 12) == {"secret": FAILED, "missing": FAILED}


def test_a_topic_without_the_right_to_create_is_not_made_on_the_way(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    guarded.grant(allow("alice", AclOperation.DESCRIBE, TOPIC, "new"))
    named = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    assert seen(alice, named) == {"new": FAILED}
    assert "new" not in seen(guarded.admin, MetadataRequest(topics=None))
    guarded.grant(allow("alice", AclOperation.CREATE, TOPIC, "new"))
    assert seen(alice, named) == {"new": ErrorCode.NONE}


def test_one_request_is_answered_for_each_topic_by_its_own_rights(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    guarded.grant(allow("alice", AclOperation.ALL, TOPIC, "orders"))
    expected = {"orders": ErrorCode.NONE, "secret": FAILED}
    assert codes(alice, produce_to("orders", "secret"), 9) == expected
    assert codes(alice, produce_to("orders", "secret", acks=-1), 9) == expected
    assert codes(alice, fetch_of("orders", "secret"), 12) == expected


def test_a_single_batch_is_written_with_the_right_alone(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    """It would take the shortcut that builds no messages."""
    assert codes(alice, produce_to("orders"), 9) == {"orders": FAILED}
    guarded.grant(allow("alice", AclOperation.WRITE, TOPIC, "orders"))
    assert codes(alice, produce_to("orders"), 9) == {"orders": ErrorCode.NONE}
    guarded.revoke_all()
    assert codes(alice, produce_to("orders"), 9) == {"orders": FAILED}


def test_a_transaction_is_written_with_the_right_on_its_id(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    guarded.grant(allow("alice", AclOperation.WRITE, TOPIC, "orders"))
    refused = {"orders": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert codes(alice, produce_to("orders", acks=-1, transactional_id="t"), 9) == refused


def test_a_producer_without_acks_is_cut_off_when_it_may_not_write(alice: Dialogue) -> None:
    alice.send(produce_to("orders", acks=0), version=9)
    with pytest.raises(ConnectionError):
        alice.reply_to(produce_to("orders"), version=9)


def test_a_fetch_session_of_another_client_tells_nothing(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    guarded.grant(allow("alice", AclOperation.READ, TOPIC, "orders"))
    opening = fetch_of("orders")
    opening.session_epoch = 0
    session_id = alice.exchange(opening, version=12).session_id
    going_on = FetchRequest(
        replica_id=-1, max_wait_ms=0, session_id=session_id, session_epoch=1, max_bytes=2**20
    )
    mallory = guarded.dialogue("mallory")
    try:
        answer = mallory.exchange(going_on, version=12)
    finally:
        mallory.close()
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.responses == []
    assert alice.exchange(going_on, version=12).error_code == ErrorCode.NONE


def test_authorized_operations_are_those_of_the_client(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    guarded.grant(allow("alice", AclOperation.READ, TOPIC, "orders"))
    asked = MetadataRequest(
        topics=None,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    reply = alice.exchange(asked, version=8)
    [orders] = reply.topics
    assert orders.topic_authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    assert reply.cluster_authorized_operations == 0
    [topic] = alice.exchange(DescribeTopicPartitionsRequest(), version=0).topics
    assert topic.topic_authorized_operations == orders.topic_authorized_operations


def test_entries_survive_a_restart(tmp_path: Path) -> None:
    with authorised_node(tmp_path) as node:
        node.grant(allow("alice", AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME))
    with authorised_node(tmp_path) as node:
        talk = node.dialogue("alice")
        [resource] = talk.exchange(description_request(AclFilter()), version=3).resources
        assert resource.resource_name == CLUSTER_NAME
        talk.close()

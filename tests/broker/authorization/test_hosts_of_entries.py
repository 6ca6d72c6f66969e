"""Entries for one host apply to it on a listener of IPv6 too, and wherever the host is judged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.messages import deletion_filter
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.delete_acls import DeleteAclsRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from rig.authorised_node import AuthorisedNode, allow, authorised_node
from rig.dialogue import Dialogue

HOST = "127.0.0.1"
LONG = "0:0:0:0:0:FFFF:7F00:1"  # the same host


@pytest.fixture
def node(tmp_path: Path) -> Iterator[AuthorisedNode]:
    with authorised_node(
        tmp_path,
        listeners="PLAINTEXT://[::]:0",
    ) as found:
        found.grant(allow("alice", AclOperation.ALL, ResourceType.TOPIC, "*"))
        yield found


@pytest.fixture
def alice(node: AuthorisedNode) -> Iterator[Dialogue]:
    talk = node.dialogue("alice")
    yield talk
    talk.close()


def seen(talk: Dialogue) -> int:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    [topic] = talk.exchange(asked, version=9).topics
    return int(topic.error_code)


def made(talk: Dialogue, name: str) -> int:
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    [topic] = talk.exchange(CreateTopicsRequest(topics=[wanted]), version=7).topics
    return int(topic.error_code)


@pytest.mark.parametrize("host", [HOST, LONG])
def test_a_host_is_denied_by_the_broker_and_by_the_controller(
    node: AuthorisedNode, alice: Dialogue, host: str
) -> None:
    assert made(alice, "orders") == ErrorCode.NONE
    assert seen(alice) == ErrorCode.NONE
    node.grant(allow("alice", AclOperation.ALL, ResourceType.TOPIC, "*", host=host, deny=True))
    assert seen(alice) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert made(alice, "payments") == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_entry_is_found_by_its_host_as_it_was_written(node: AuthorisedNode) -> None:
    node.grant(allow("alice", AclOperation.READ, ResourceType.TOPIC, "orders", host=LONG))
    by_form = [deletion_filter(AclFilter(host=host)) for host in (HOST, LONG)]
    reply = node.admin.exchange(DeleteAclsRequest(filters=by_form), version=3)
    assert [[acl.host for acl in one.matching_acls] for one in reply.filter_results] == [[], [LONG]]

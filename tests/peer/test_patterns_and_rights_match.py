"""A pattern of a consumer group (KIP-848) leaves out what its client may not describe, as in Kafka.

Clients and nodes are all anonymous here, so what has no entries is open, and a topic is hidden by
an entry that denies it.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.messages import creation_of
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from rig.apache_kafka.broker import ApacheKafka
from rig.authorised_node import allow
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.serve import ServedNode

NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture
def kafka(kafka_jars: Path, tmp_path: Path) -> Iterator[str]:
    peer = ApacheKafka(jars=kafka_jars, folder=tmp_path, settings=SETTINGS)
    peer.start()
    yield peer.bootstrap
    peer.stop()


@pytest.fixture
def penstock(tmp_path: Path) -> Iterator[str]:
    node = ServedNode(data=tmp_path / "node", settings=SETTINGS)
    node.start()
    yield node.bootstrap
    assert node.stop() == 0


def create(talk: Dialogue, name: str) -> bytes:
    talk.topic = name
    return talk.create_topic()


def hide(talk: Dialogue, topic: str) -> None:
    entry = allow("ANONYMOUS", AclOperation.DESCRIBE, ResourceType.TOPIC, topic, deny=True)
    request = CreateAclsRequest(creations=[creation_of(entry)])
    [made] = talk.exchange(request, version=3).results
    assert made.error_code == ErrorCode.NONE, made


class Member:
    """Subscribes to all topics."""

    def __init__(self, talk: Dialogue) -> None:
        self.seen: set[bytes] = set()  # topics that were ever assigned
        self._talk = talk
        self._epoch = 0
        self._owned: set[bytes] = set()
        talk.exchange(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), version=4)

    def has(self, *topics: bytes) -> bool:
        """Whether it is assigned these after one more heartbeat, and no others."""
        owned = [TopicPartitions(topic_id=one, partitions=[0]) for one in self._owned]
        joins = self._epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=self._epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_regex="[a-z]+" if joins else None,
            topic_partitions=owned,
        )
        reply = self._talk.exchange(request, version=1)
        if reply.error_code in NOT_YET:
            return False
        assert reply.error_code == ErrorCode.NONE, reply
        self._epoch = reply.member_epoch
        if reply.assignment is not None:
            self._owned = {bytes(one.topic_id) for one in reply.assignment.topic_partitions}
        self.seen |= self._owned
        return self._owned == set(topics)


@pytest.mark.parametrize("software", ["kafka", "penstock"])
def test_a_hidden_topic_is_not_assigned(request: pytest.FixtureRequest, software: str) -> None:
    bootstrap = request.getfixturevalue(software)
    with closing(Dialogue(bootstrap, "")) as talk:
        orders = create(talk, "orders")
        create(talk, "secret")
        hide(talk, "secret")
        member = Member(talk)
        until("orders is assigned", lambda: member.has(orders))
        create(talk, "hidden")
        hide(talk, "hidden")
        later = create(talk, "later")
        until("what is new is assigned", lambda: member.has(orders, later))
        assert member.seen == {orders, later}

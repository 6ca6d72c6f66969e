"""A consumer that subscribes by a pattern is assigned topics that it may describe alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from rig.authorised_node import AuthorisedNode, allow, authorised_node

TOPIC = ResourceType.TOPIC
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
HEARTBEATS_MAX = 10_000


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[AuthorisedNode]:
    with authorised_node(tmp_path) as node:
        yield node


def create(guarded: AuthorisedNode, name: str) -> bytes:
    guarded.admin.topic = name
    return guarded.admin.create_topic()


class Member:
    """Of the group `shop`, as `User:alice`; subscribes to all topics."""

    def __init__(self, guarded: AuthorisedNode) -> None:
        self._talk = guarded.dialogue("alice")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["shop"])
        self._talk.exchange(find, version=4)
        self._epoch = 0
        self._owned: set[bytes] = set()

    def assigned(self) -> set[bytes]:
        """The ids of the topics that it has after one more heartbeat."""
        joins = self._epoch == 0
        owned = [TopicPartitions(topic_id=one, partitions=[0]) for one in self._owned]
        request = ConsumerGroupHeartbeatRequest(
            group_id="shop",
            member_id="member",
            member_epoch=self._epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_regex=".*" if joins else None,
            topic_partitions=owned,
        )
        reply = self._talk.exchange(request, version=1)
        while reply.error_code in NOT_YET:
            reply = self._talk.exchange(request, version=1)
        assert reply.error_code == ErrorCode.NONE, reply
        self._epoch = reply.member_epoch
        if reply.assignment is not None:
            self._owned = {bytes(topic.topic_id) for topic in reply.assignment.topic_partitions}
        return self._owned

    def until_assigned(self, wanted: set[bytes], *, never: bytes) -> None:
        """Metadata comes to the coordinator a moment after the controller has answered."""
        for _ in range(HEARTBEATS_MAX):
            found = self.assigned()
            assert never not in found
            if found == wanted:
                return
        raise AssertionError(f"{found} is assigned, not {wanted}")

    def close(self) -> None:
        self._talk.close()


def test_a_pattern_stands_for_the_topics_that_the_client_may_describe(
    guarded: AuthorisedNode,
) -> None:
    orders, secret = create(guarded, "orders"), create(guarded, "secret")
    guarded.grant(
        allow("alice", AclOperation.READ, ResourceType.GROUP, "shop"),
        allow("alice", AclOperation.DESCRIBE, TOPIC, "orders"),
        allow("alice", AclOperation.READ, TOPIC, "new-", prefixed=True),
    )
    member = Member(guarded)
    try:
        member.until_assigned({orders}, never=secret)
        # A topic is made that it may see, and one that it may not.
        hidden = create(guarded, "hidden")
        new = create(guarded, "new-orders")
        member.until_assigned({orders, new}, never=hidden)
        # Rights come and go.
        guarded.grant(allow("alice", AclOperation.DESCRIBE, TOPIC, "hidden"))
        member.until_assigned({orders, new, hidden}, never=secret)
        guarded.grant(allow("alice", AclOperation.DESCRIBE, TOPIC, "orders", deny=True))
        member.until_assigned({new, hidden}, never=secret)
    finally:
        member.close()

"""A right that is revoked or denied is refused by the next request, on open connections too, and by
a fetch that waits.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from penstock.model.error import ErrorCode
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.node.build import OpenNode
from penstock.replication.partition import Partition
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.authorised_node import AuthorisedNode, allow, authorised_node
from rig.dialogue import Dialogue
from rig.produced import produced

TOPIC = ResourceType.TOPIC
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NONE = ErrorCode.NONE
READS_WIDE = allow("alice", AclOperation.READ, TOPIC, "wide")
PARTITIONS = ENTRIES_PER_TURN + 1  # of wide: read in two turns, with orders
BY_BYTES, BY_MESSAGE = 9, 8  # versions of Produce that take the shortcut, and that do not


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[AuthorisedNode]:
    with authorised_node(tmp_path) as node:
        node.admin.topic = "orders"
        node.admin.create_topic()
        yield node


@pytest.fixture
def alice(guarded: AuthorisedNode) -> Iterator[Dialogue]:
    talk = guarded.dialogue("alice")
    yield talk
    talk.close()


def produced_with(talk: Dialogue, version: int) -> int:
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="orders", partition_data=[PartitionProduceData(index=0, records=produced())]
            )
        ],
    )
    [topic] = talk.exchange(request, version=version).responses
    [answer] = topic.partition_responses
    code: int = answer.error_code
    return code


def fetched(talk: Dialogue) -> int:
    request = FetchRequest(
        replica_id=-1,
        min_bytes=0,
        max_bytes=2**20,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=2**20)])],
    )
    [topic] = talk.exchange(request, version=12).responses
    [answer] = topic.partitions
    code: int = answer.error_code
    return code


def answers(talk: Dialogue) -> list[int]:
    return [produced_with(talk, BY_BYTES), produced_with(talk, BY_MESSAGE), fetched(talk)]


def grant_all(guarded: AuthorisedNode) -> None:
    guarded.grant(
        allow("alice", AclOperation.WRITE, TOPIC, "ord", prefixed=True),
        allow("alice", AclOperation.READ, TOPIC, "*"),
    )


def test_revoked_rights_are_refused_by_the_next_request(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    for _ in range(2):
        grant_all(guarded)
        assert answers(alice) == [NONE, NONE, NONE]
        assert answers(alice) == [NONE, NONE, NONE]  # from memory
        guarded.revoke_all()
        assert answers(alice) == [FAILED, FAILED, FAILED]


def test_a_denial_is_heeded_by_the_next_request(guarded: AuthorisedNode, alice: Dialogue) -> None:
    grant_all(guarded)
    assert answers(alice) == [NONE, NONE, NONE]
    guarded.grant(allow("alice", AclOperation.WRITE, TOPIC, "orders", deny=True, host="127.0.0.1"))
    assert answers(alice) == [FAILED, FAILED, NONE]


async def parked(guarded: AuthorisedNode) -> None:
    """Returns when a fetch waits for more of orders."""
    opened = cast(OpenNode, guarded.node.node._running)
    assert opened.broker is not None
    partition = opened.broker.partitions.find("orders", 0)
    assert isinstance(partition, Partition)
    while not partition.observers:  # noqa: ASYNC110 - what the node does inside signals nothing
        await asyncio.sleep(0.001)


def waiting_fetch(*names: str, wait_ms: int = 60_000) -> FetchRequest:
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=2**20,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=index, partition_max_bytes=2**20)
                    for index in range(PARTITIONS if name == "wide" else 1)
                ],
            )
            for name in names
        ],
    )


@pytest.mark.parametrize("names", [("orders",), ("orders", "wide")], ids=["few", "many"])
def test_a_fetch_that_waits_reads_nothing_after_its_right_is_revoked(
    guarded: AuthorisedNode, alice: Dialogue, names: tuple[str, ...]
) -> None:
    guarded.grant(allow("alice", AclOperation.READ, TOPIC, "orders"), READS_WIDE)
    guarded.admin.topic = "wide"
    guarded.admin.create_topic(partitions=PARTITIONS)
    asked = waiting_fetch(*names)
    alice.send(asked, version=12)
    guarded.node.run(parked(guarded))
    guarded.revoke_all()
    guarded.grant(READS_WIDE)
    assert produced_with(guarded.admin, BY_BYTES) == NONE
    answer = alice.reply_to(asked, version=12)
    orders = answer.responses[0]
    assert orders.topic == "orders"
    [partition] = orders.partitions
    assert (partition.error_code, bytes(partition.records or b"")) == (FAILED, b"")


def test_a_fetch_that_waits_goes_on_when_the_rights_of_others_change(
    guarded: AuthorisedNode, alice: Dialogue
) -> None:
    grant_all(guarded)
    asked = waiting_fetch("orders")
    alice.send(asked, version=12)
    guarded.node.run(parked(guarded))
    guarded.grant(allow("bob", AclOperation.READ, TOPIC, "*"))
    assert produced_with(guarded.admin, BY_BYTES) == NONE
    [topic] = alice.reply_to(asked, version=12).responses
    [partition] = topic.partitions
    assert partition.error_code == NONE
    assert partition.records


def test_each_refusal_is_logged_also_those_from_memory(
    guarded: AuthorisedNode, alice: Dialogue, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert produced_with(alice, BY_BYTES) == FAILED
    told = [one for one in caplog.messages if one.startswith("authorization denied")]
    assert told == 3 * [
        "authorization denied principal=User:alice host=127.0.0.1 listener=PLAINTEXT "
        "api=PRODUCE code=TOPIC_AUTHORIZATION_FAILED"
    ]

"""Offsets committed in a transaction, rightly or wrongly, are answered as by Apache Kafka."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from rig.dialogue import Dialogue
from rig.transaction_dialogue import NOT_YET, Producer, TransactionDialogue, wrong_identities

MEMBER_ID_REQUIRED = 79
MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def offsets_in_every_version(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    group = talk.group()
    for version in range(6):
        producer = talk.producer(f"-{version}")
        if version < 5:
            talk.add_offsets(producer, group=group, version=min(version, 4))
        talk.commit_offset(producer, 10 + version, group=group, version=version)
        talk.look(producer)
        ask_for_offsets(talk, group)
        talk.end(producer, commit=version % 2 == 0, version=5 if version == 5 else 4)
        await_stable(talk, group)
        ask_for_offsets(talk, group)
        talk.look(producer)


def ask_for_offsets(talk: TransactionDialogue, group: str) -> None:
    for stable in (True, False):
        asked = OffsetFetchRequestTopics(name=talk.topic, partition_indexes=[0, 1])
        one = OffsetFetchRequestGroup(group_id=group, topics=[asked])
        talk.ask(OffsetFetchRequest(groups=[one], require_stable=stable), version=9)


def await_stable(talk: TransactionDialogue, group: str) -> None:
    """Markers of offsets are applied a moment after they are written."""
    one = OffsetFetchRequestGroup(group_id=group, topics=None)
    request = OffsetFetchRequest(groups=[one], require_stable=True)
    while True:
        [answer] = talk.dialogue.exchange(request, version=9).groups
        codes = {part.error_code for topic in answer.topics for part in topic.partitions}
        if answer.error_code == 0 and codes <= {0}:
            return


def offsets_that_are_refused(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    group = talk.group()
    producer = talk.producer()
    with talk.nothing_changes(producer):
        for version in range(5):
            for wrong in wrong_identities(producer):
                talk.add_offsets(wrong, group=group, version=version)
            # Of a group that was never added.
            talk.commit_offset(producer, 1, group=group, version=version)
    talk.add_offsets(producer, group=group)
    with talk.nothing_changes(producer):
        for version in range(6):
            for wrong in wrong_identities(producer):
                if wrong.producer_id >= 0:
                    talk.commit_offset(wrong, 1, group=group, version=version)
    for version in (2, 3, 5):
        for topics in (
            {"no-such-topic": [0]},
            {talk.topic: [0, 7]},
            {talk.topic: [-1]},
            {"": [0]},
        ):
            talk.commit_offset(producer, 1, group=group, version=version, topics=topics)
        talk.commit_offset(producer, 1, group=group, version=version, metadata="x" * 5000)
        talk.commit_offset(producer, 1, group="", version=version)
    talk.end(producer, commit=True)
    await_stable(talk, group)
    ask_for_offsets(talk, group)
    talk.look(producer)


def offsets_of_wrong_members(dialogue: Dialogue) -> None:
    """Of a group that is not there, and of one whose member and generation are others.

    In Kafka a group begins to be with an offset that is only promised, and with us with one that
    counts. So none is promised to a group without members before the wrong ones are refused.
    """
    talk = TransactionDialogue(dialogue)
    group = talk.group()
    producer = talk.producer()
    talk.add_offsets(producer, group=group)
    for version in (3, 4, 5):
        for fields in wrong_members("nobody", 3):
            if fields["generation_id"] != -1:
                talk.commit_offset(producer, 1, group=group, version=version, **fields)
    member, generation = join(talk, group)
    for version in (3, 4, 5):
        for fields in wrong_members(member, generation):
            talk.commit_offset(producer, 1, group=group, version=version, **fields)
        talk.commit_offset(
            producer, 5, group=group, version=version, member_id=member, generation_id=generation
        )
    talk.look(producer)


def offsets_of_wrong_members_of_a_consumer_group(dialogue: Dialogue) -> None:
    """The same for a group of KIP-848; one that is behind may still speak for what it has kept."""
    talk = TransactionDialogue(dialogue)
    group = talk.group()
    later = dialogue.settle()
    first = beat(talk, group, 0, [talk.topic])
    producer = talk.producer()
    talk.add_offsets(producer, group=group)
    commit_by_a_member(talk, producer, group, first, [talk.topic, later])
    while (second := beat(talk, group, first, [talk.topic, later])) == first:
        pass
    commit_by_a_member(talk, producer, group, second, [talk.topic, later])
    talk.look(producer)


def commit_by_a_member(
    talk: TransactionDialogue, producer: Producer, group: str, epoch: int, topics: list[str]
) -> None:
    """Rightly, wrongly, and by epochs that are behind."""
    for version in (3, 4, 5):
        for fields in wrong_members(MEMBER_ID, epoch):
            talk.commit_offset(producer, 1, group=group, version=version, **fields)
        for topic, generation in itertools.product(topics, range(epoch + 1)):
            talk.commit_offset(
                producer,
                5,
                group=group,
                version=version,
                topics={topic: [0]},
                member_id=MEMBER_ID,
                generation_id=generation,
            )


def wrong_members(member: str, generation: int) -> list[dict[str, Any]]:
    return [
        {"member_id": member, "generation_id": generation + 1},
        {"member_id": member, "generation_id": -1},
        {"member_id": "somebody else", "generation_id": generation},
        {"member_id": "", "generation_id": generation},
        {"member_id": member, "generation_id": generation, "group_instance_id": "of another"},
        {"member_id": "", "generation_id": -1},
    ]


def join(talk: TransactionDialogue, group: str) -> tuple[str, int]:
    """The only member of a group, which waits for its assignment."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = talk.dialogue.exchange(request, version=5)
    while answer.error_code in (MEMBER_ID_REQUIRED, *NOT_YET):
        request.member_id = answer.member_id
        answer = talk.dialogue.exchange(request, version=5)
    assert answer.error_code == 0, answer
    return answer.member_id, answer.generation_id


def beat(talk: TransactionDialogue, group: str, epoch: int, topics: list[str]) -> int:
    """The only member of a group says which topics it wants; its epoch."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER_ID,
        member_epoch=epoch,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=topics,
        topic_partitions=[],
    )
    answer = talk.dialogue.exchange(request, version=1)
    while answer.error_code in NOT_YET:
        answer = talk.dialogue.exchange(request, version=1)
    assert answer.error_code == 0, answer
    return int(answer.member_epoch)


TALKS: list[Callable[[Dialogue], None]] = [
    offsets_in_every_version,
    offsets_that_are_refused,
    offsets_of_wrong_members,
    offsets_of_wrong_members_of_a_consumer_group,
]


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_offsets_in_a_transaction_are_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)

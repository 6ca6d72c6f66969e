"""What is added to a transaction and written in it is answered as by Apache Kafka.

Left out of the comparison is what Apache Kafka lets brokers do with its own log of transactions:
add it to a transaction, and write markers into it. Here nobody may.
"""

from collections.abc import Callable

import pytest

from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from rig.dialogue import Dialogue
from rig.transaction_dialogue import TransactionDialogue, wrong_identities

GENERATION_1 = (4, 11)  # the versions of EndTxn and of Produce
GENERATION_2 = (5, 12)
WITH_TOPIC_IDS = (5, 13)


def partitions_in_every_version(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        producer = talk.producer(f"-{version}")
        talk.add(producer, 0, version=version)
        talk.add(producer, 0, 1, version=version)
        talk.add(producer, version=version, topics={})
        talk.look(producer)


def partitions_asked_about(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in (4, 5):
        producer = talk.producer(f"-{version}")
        talk.add(producer, 0, 1, version=version, verify_only=True)
        talk.add(producer, 0, version=version)
        talk.add(producer, 0, 1, version=version, verify_only=True)
        for wrong in wrong_identities(producer):
            talk.add(wrong, 0, 1, version=version, verify_only=True)
        for topics in topics_not_to_be_added(talk):
            talk.add(producer, version=version, verify_only=True, topics=topics)
        talk.end(producer, commit=True)
        talk.add(producer, 0, version=version, verify_only=True)
        talk.look(producer)


def partitions_of_many_at_once(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in (4, 5):
        producers = [talk.producer(f"-{version}-{number}") for number in range(4)]
        known = [AddPartitionsToTxnTopic(name=talk.topic, partitions=[0, 1])]
        unknown = [AddPartitionsToTxnTopic(name=talk.topic, partitions=[0, 7])]
        stale = producers[3].copy(epoch=producers[3].epoch + 1)
        request = AddPartitionsToTxnRequest(
            transactions=[
                talk.enlistment(producers[0], known),
                talk.enlistment(producers[1], known, verify_only=True),
                talk.enlistment(producers[2], unknown),
                talk.enlistment(stale, known),
            ]
        )
        talk.ask(request, version=version)
        talk.look(*producers)


def topics_not_to_be_added(talk: TransactionDialogue) -> list[dict[str, list[int]]]:
    return [
        {"no-such-topic": [0]},
        {talk.topic: [0, 1], "no-such-topic": [0, 1]},
        {talk.topic: [0, 2]},
        {talk.topic: [-1]},
        {"": [0]},
        {"not a name": [0]},
    ]


def partitions_that_are_refused(dialogue: Dialogue) -> None:
    """One that is not there keeps all others out."""
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        producer = talk.producer(f"-{version}")
        for is_open in (False, True):
            if is_open:
                talk.add(producer, 1, version=version)
            with talk.nothing_changes(producer):
                for topics in topics_not_to_be_added(talk):
                    talk.add(producer, version=version, topics=topics)
                for wrong in wrong_identities(producer):
                    talk.add(wrong, 0, version=version)


def records_of_no_transaction(dialogue: Dialogue) -> None:
    """Partitions never added, wrong identities, and what is not transactional after all."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    talk.add(producer, 1)
    talk.produce(producer, 1)
    with talk.nothing_changes(producer):
        for version in range(3, 12):
            talk.produce(producer.copy(), 0, version=version)
        for version in (9, 10, 11, 12):
            for wrong in wrong_identities(producer):
                if wrong.producer_id >= 0:
                    talk.produce(wrong, 0, version=version)
        for partition in (0, 1):
            talk.produce(producer.copy(), partition, named=False)
        talk.produce(producer.copy(), 1, transactional=False)
        talk.produce(producer.copy(), 1, transactional=False, named=False, sequence=40)
    for partition in (0, 1):
        talk.produce(producer.copy(), partition, acks=1)
        talk.produce(producer.copy(), partition, transactional=False)
    talk.look(producer)


def records_of_both_generations(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for end_version, produce_version in (GENERATION_1, GENERATION_2, WITH_TOPIC_IDS):
        producer = talk.producer(f"-{produce_version}")
        for commit in (True, False):
            if end_version == 4:
                talk.add(producer, 0, 1)
            for partition in (0, 1, 0):
                talk.produce(producer, partition, version=produce_version)
            talk.look(producer)
            talk.end(producer, commit=commit, version=end_version)
            talk.look(producer)
        late = producer.copy(epoch=producer.epoch - (end_version == 5))
        talk.produce(late, 0, version=produce_version, sequence=2)
        talk.look(producer)


def records_out_of_sequence(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    for sequence in (3, 0, 0, 2, 1):
        talk.produce(producer, 0, version=12, sequence=sequence)
    talk.look(producer)
    talk.end(producer, commit=True, version=5)
    for sequence in (3, 0):
        talk.produce(producer, 0, version=12, sequence=sequence)
    talk.look(producer)


def markers_by_hand(dialogue: Dialogue) -> None:
    """In topics of users. Kafka also writes one into its own log of transactions; we do not, as
    nobody reads it there.
    """
    talk = TransactionDialogue(dialogue)
    for version in (1, 2):
        talk.producer(f"-{version}")
        producer = talk.producer(f"-{version}")
        talk.add(producer, 0, 1)
        talk.produce(producer, 0)
        talk.produce(producer, 1)
        older = producer.copy(epoch=producer.epoch - 1)
        with talk.nothing_changes(producer):
            talk.mark(older, 0, commit=False, version=version)
        talk.mark(producer, 0, 1, 7, commit=False, version=version)
        talk.mark(producer, 0, commit=False, version=version, topic="no-such-topic")
        talk.look(producer)
        talk.mark(producer, 0, commit=False, version=version, coordinator_epoch=3)
        with talk.nothing_changes(producer):
            talk.mark(producer, 0, commit=False, version=version, coordinator_epoch=2)
        for epoch in (-1, -2):
            talk.mark(producer, 1, commit=False, version=version, coordinator_epoch=epoch)
        talk.look(producer)
    talk.ask(WriteTxnMarkersRequest(markers=[]), version=1)


def markers_of_generation_2(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    talk.produce(producer, 0, version=12)
    talk.mark(producer, 0, commit=False, transaction_version=2)
    talk.look(producer)
    following = producer.copy(epoch=producer.epoch + 1)
    talk.mark(following, 0, commit=False, transaction_version=2)
    talk.look(producer)
    talk.mark(following, 0, commit=False, transaction_version=2)
    talk.mark(producer, 0, commit=False, transaction_version=2)
    talk.look(producer)


TALKS: list[Callable[[Dialogue], None]] = [
    partitions_in_every_version,
    partitions_asked_about,
    partitions_of_many_at_once,
    partitions_that_are_refused,
    records_of_no_transaction,
    records_of_both_generations,
    records_out_of_sequence,
    markers_by_hand,
    markers_of_generation_2,
]


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_what_is_in_a_transaction_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)

"""How a transaction ends, once, twice or by the wrong hand, is answered as by Apache Kafka."""

from collections.abc import Callable

import pytest

from rig.dialogue import Dialogue
from rig.transaction_dialogue import TransactionDialogue, wrong_identities

GENERATION_1 = (4, 11)  # the versions of EndTxn and of Produce
GENERATION_2 = (5, 12)


def ends_in_every_version(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        for commit in (True, False):
            producer = talk.producer(f"-{version}-{commit}")
            talk.add(producer, 0)
            talk.produce(producer, 0)
            talk.end(producer, commit=commit, version=version)
            talk.look(producer)


def ends_of_what_has_not_begun(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        for commit in (True, False):
            producer = talk.producer(f"-{version}-{commit}")
            talk.end(producer, commit=commit, version=version)
            talk.look(producer)


def ends_said_twice(dialogue: Dialogue) -> None:
    """By one who did not get the answer; then with the other word."""
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        for commit in (True, False):
            producer = talk.producer(f"-{version}-{commit}")
            talk.add(producer, 0)
            before = producer.copy()
            talk.end(producer, commit=commit, version=version)
            talk.look(producer)
            for again in (before.copy(), before.copy(), producer.copy()):
                talk.end(again, commit=commit, version=version)
                talk.look(producer)
            # A commit that comes after an abort is fenced here (ADR 21), and there invalid.
            if commit or version < 5:
                for other in (before.copy(), producer.copy()):
                    talk.end(other, commit=not commit, version=version)
            talk.look(producer)


def ends_by_others(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        producer = talk.producer(f"-{version}")
        for is_open in (False, True):
            if is_open:
                talk.add(producer, 0)
            with talk.nothing_changes(producer):
                for wrong in wrong_identities(producer):
                    for commit in (True, False):
                        talk.end(wrong, commit=commit, version=version, waits=False)
        talk.end(producer, commit=True, version=version)


def ends_in_turn_of_generations(dialogue: Dialogue) -> None:
    """A client that is upgraded between its transactions, and one that is taken back."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    for end_version, produce_version in (GENERATION_1, GENERATION_2, GENERATION_1, GENERATION_2):
        if end_version == 4:
            talk.add(producer, 0)
        talk.produce(producer, 0, version=produce_version)
        before = producer.copy()
        talk.end(producer, commit=True, version=end_version)
        for version in (4, 5):
            talk.end(before.copy(), commit=True, version=version)
        talk.look(producer)
        producer = talk.producer()


def the_next_transaction_after_each_end(dialogue: Dialogue) -> None:
    """Identities go on, and a late retry of the end before says what it may."""
    talk = TransactionDialogue(dialogue)
    for version in (4, 5):
        producer = talk.producer(f"-{version}")
        talk.add(producer, 0)
        first = producer.copy()
        talk.end(producer, commit=True, version=version)
        talk.add(producer, 1)
        talk.look(producer)
        for commit in (True, False):
            late = first.copy()
            if version == 5:
                talk.end(late, commit=commit, version=version)
        talk.look(producer)
        talk.end(producer, commit=False, version=version)
        talk.look(producer)
        fresh = producer.copy()
        talk.init(fresh, producer_id=first.producer_id, producer_epoch=first.epoch)
        talk.init(fresh, producer_id=producer.producer_id, producer_epoch=producer.epoch)
        talk.look(producer)


TALKS: list[Callable[[Dialogue], None]] = [
    ends_in_every_version,
    ends_of_what_has_not_begun,
    ends_said_twice,
    ends_by_others,
    ends_in_turn_of_generations,
    the_next_transaction_after_each_end,
]


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_an_end_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)

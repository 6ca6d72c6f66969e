"""Who a transactional producer is told to be, right or wrong, is what Apache Kafka would tell it.

After what was refused, all that can be seen of the transaction and of the partitions is compared
with what was there before, and with what Apache Kafka shows.

Left out is the producer that was fenced and asks for its next epoch while its successor has a
transaction open. Apache Kafka aborts that transaction before it looks at the epoch; here the one
who is fenced is told so, and the transaction goes on.
"""

from collections.abc import Callable

import pytest

from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from rig.dialogue import Dialogue
from rig.transaction_dialogue import Producer, TransactionDialogue

MAX_TIMEOUT_MS = 900_000


def identities_in_every_version(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in range(6):
        producer = Producer(transactional_id=f"{talk.topic}-{version}")
        talk.await_coordinator(producer)
        while talk.dialogue.exchange(talk.init_request(producer), version=version).error_code:
            pass  # a broker that has just started has no producer ids at first
        talk.init(producer, version=version)
        talk.look(producer)
        if version >= 3:
            talk.init(
                producer,
                version=version,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
            )
        talk.look(producer)


def identities_that_are_refused(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    producer, other = talk.producer(), talk.producer("-other")
    held, epoch = producer.producer_id, producer.epoch
    with talk.nothing_changes(producer, other):
        for fields in (
            {"transactional_id": ""},
            {"transaction_timeout_ms": 0},
            {"transaction_timeout_ms": -1},
            {"transaction_timeout_ms": MAX_TIMEOUT_MS + 1},
            {"transaction_timeout_ms": 2**31 - 1},
        ):
            for version in range(6):
                talk.init(producer.copy(), version=version, **fields)
        for version in (3, 4, 5):
            for identity in (
                {"producer_id": held, "producer_epoch": -1},
                {"producer_id": -1, "producer_epoch": epoch},
                {"producer_id": held, "producer_epoch": epoch + 1},
                {"producer_id": held, "producer_epoch": epoch + 7},
                {"producer_id": held, "producer_epoch": 2**15 - 1},
                {"producer_id": held, "producer_epoch": -2},
                {"producer_id": -2, "producer_epoch": epoch},
                {"producer_id": held + 1_000_000, "producer_epoch": epoch},
                {"producer_id": other.producer_id, "producer_epoch": other.epoch},
            ):
                talk.init(producer.copy(), version=version, **identity)
        talk.ask(InitProducerIdRequest(transactional_id=None, producer_id=5), version=5)
        talk.ask(InitProducerIdRequest(transactional_id=None, producer_epoch=5), version=5)


def identities_that_are_unknown(dialogue: Dialogue) -> None:
    """A transactional id that nobody has used, with an identity of its own."""
    talk = TransactionDialogue(dialogue)
    known = talk.producer()
    for version in (3, 5):
        stranger = Producer(transactional_id=f"{talk.topic}-stranger-{version}")
        talk.await_coordinator(stranger)
        talk.init(stranger, version=version, producer_id=known.producer_id, producer_epoch=3)
        talk.look(stranger)


def identities_traded_in(dialogue: Dialogue) -> None:
    """Again and again, by one who did not get the answer, and by one who is too late."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    first = producer.copy()
    for _ in range(2):
        talk.init(producer, producer_id=first.producer_id, producer_epoch=first.epoch)
    second = producer.copy()
    talk.init(producer, producer_id=second.producer_id, producer_epoch=second.epoch)
    for version in (3, 4, 5):
        talk.init(
            first.copy(),
            version=version,
            producer_id=first.producer_id,
            producer_epoch=first.epoch,
        )
    talk.look(producer)
    talk.add(second, 0)
    talk.add(producer, 0)
    talk.look(producer)


def identities_traded_in_amid_a_transaction(dialogue: Dialogue) -> None:
    """It is aborted, and the one who left it has to begin anew."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    talk.add(producer, 0)
    talk.produce(producer)
    left = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    talk.init(producer, **left)
    talk.await_end(producer)
    talk.look(producer)
    for version in (3, 5):
        talk.init(producer, version=version, **left)
    talk.init(producer)
    talk.look(producer)


def what_the_fenced_may_do(dialogue: Dialogue) -> None:
    """A newer one has aborted the transaction and not begun yet; as a time-out leaves it too."""
    talk = TransactionDialogue(dialogue)
    for end_version, produce_version in ((4, 11), (5, 12)):
        for number, attempt in enumerate(ATTEMPTS_OF_THE_FENCED):
            older = talk.producer(f"-{end_version}-{number}")
            talk.add(older, 0)
            talk.produce(older, version=produce_version)
            talk.init(older.copy())
            talk.await_end(older)
            attempt(talk, older, end_version)
            talk.look(older)


ATTEMPTS_OF_THE_FENCED: list[Callable[[TransactionDialogue, Producer, int], object]] = [
    # In generation 2 a late commit is fenced here, and there invalid.
    lambda talk, fenced, _: talk.end(fenced, commit=True, version=4),
    lambda talk, fenced, version: talk.end(fenced, commit=False, version=version),
    lambda talk, fenced, version: talk.add(fenced, 0),
    lambda talk, fenced, version: talk.produce(fenced, version=version + 7),
    lambda talk, fenced, version: talk.init(
        fenced, version=version, producer_id=fenced.producer_id, producer_epoch=fenced.epoch
    ),
]


def a_predecessor_left_open(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    for version in (1, 3, 4, 5):
        older = talk.producer(f"-{version}")
        talk.add(older, 0, 1)
        talk.produce(older)
        talk.look(older)
        newer = older.copy()
        talk.init(newer, version=version)
        talk.await_end(newer)
        talk.look(newer)
        talk.init(newer, version=version)
        talk.look(newer)
        for end_version in (1, 2, 5):
            talk.end(older.copy(), commit=True, version=end_version)
        for add_version in (1, 2):
            talk.add(older, 0, version=add_version)
        for produce_version in (7, 9, 11, 12):
            talk.produce(older, version=produce_version)
        talk.produce(older, 1)
        talk.look(newer)


TALKS: list[Callable[[Dialogue], None]] = [
    identities_in_every_version,
    identities_that_are_refused,
    identities_that_are_unknown,
    identities_traded_in,
    what_the_fenced_may_do,
    identities_traded_in_amid_a_transaction,
    a_predecessor_left_open,
]


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_an_identity_is_given_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)

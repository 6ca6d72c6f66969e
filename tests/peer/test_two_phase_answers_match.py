"""Two-phase commit (KIP-939) as far as Apache Kafka has it: joining one, and its end.

There InitProducerId 6 is served only where unstable versions are turned on, and refuses to keep
what is prepared with UNSUPPORTED_VERSION: that it is kept, and how, is compared with nobody.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue
from rig.serve import ServedNode
from rig.transaction_dialogue import Producer, TransactionDialogue

TWO_PHASE = 6  # the version of InitProducerId
TIMEOUTS_MS = (0, -1, 1, 60_000, 900_001, 2**31 - 1)
ENABLED = {"transaction.two.phase.commit.enable": "true", "auto.create.topics.enable": "false"}


def one_without_time_out(dialogue: Dialogue) -> None:
    """Whatever time-out it asks for."""
    talk = TransactionDialogue(dialogue)
    for number, timeout_ms in enumerate(TIMEOUTS_MS):
        producer = talk.producer(f"-{number}")
        talk.init(producer, version=TWO_PHASE, enable2_pc=True, transaction_timeout_ms=timeout_ms)
        talk.look(producer)
        talk.produce(producer, version=12)
        talk.look(producer)
        again = producer.copy()
        talk.end(producer, commit=number % 2 == 0, version=5)
        talk.end(again, commit=number % 2 == 0, version=5)
        talk.look(producer)


def one_that_goes_back(dialogue: Dialogue) -> None:
    """The next who begins without two-phase commit has a time-out again, and a bound on it."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    talk.init(producer, version=TWO_PHASE, enable2_pc=True)
    for timeout_ms in TIMEOUTS_MS:
        talk.init(producer, version=TWO_PHASE, transaction_timeout_ms=timeout_ms)
        talk.look(producer)


def one_left_open(dialogue: Dialogue) -> None:
    """It is aborted by the next who begins and does not keep it."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    talk.init(producer, version=TWO_PHASE, enable2_pc=True)
    talk.produce(producer, version=12)
    successor = producer.copy()
    talk.init(successor, version=TWO_PHASE, enable2_pc=True)
    talk.await_end(producer)
    talk.look(producer)
    talk.init(successor, version=TWO_PHASE, enable2_pc=True)
    talk.end(producer, commit=True, version=5)
    talk.look(successor)


def nobody_in_particular(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    talk.producer()
    talk.init(Producer(transactional_id=""), version=TWO_PHASE, enable2_pc=True)


TALKS: list[Callable[[Dialogue], None]] = [
    one_without_time_out,
    one_that_goes_back,
    one_left_open,
    nobody_in_particular,
]


@pytest.fixture(scope="module")
def apache_kafka(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    """Not the one of all others: it says that it serves versions which others must not see."""
    peer = ApacheKafka(
        jars=kafka_jars,
        folder=tmp_path_factory.mktemp("two-phase-peer"),
        settings={"unstable.api.versions.enable": "true", **ENABLED},
    )
    peer.start()
    yield peer
    peer.stop()


@pytest.fixture(scope="module")
def served_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    node = ServedNode(data=tmp_path_factory.mktemp("two-phase") / "node", settings=ENABLED)
    node.start()
    yield node
    assert node.stop() == 0


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_a_two_phase_commit_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)

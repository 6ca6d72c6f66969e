"""Penstock and Apache Kafka side by side, for the same conversation with both."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue
from rig.serve import ServedNode

NUMBERS = itertools.count(1)
Talk = Callable[[Dialogue], None]


@pytest.fixture(scope="session")
def served_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    node = ServedNode(
        data=tmp_path_factory.mktemp("peer") / "node",
        settings={"auto.create.topics.enable": "false"},
    )
    node.start()
    yield node
    assert node.stop() == 0


@pytest.fixture
def assert_same_answers(
    apache_kafka: ApacheKafka, served_node: ServedNode
) -> Callable[[Talk], None]:
    def compare(talk: Talk) -> None:
        topic = f"talk-{next(NUMBERS)}"
        theirs, ours = (
            answers(talk, Dialogue(bootstrap, topic))
            for bootstrap in (apache_kafka.bootstrap, served_node.bootstrap)
        )
        for our_answer, their_answer in zip(ours, theirs, strict=True):
            assert our_answer == their_answer

    return compare


def answers(talk: Talk, dialogue: Dialogue) -> list[object]:
    try:
        talk(dialogue)
    finally:
        dialogue.close()
    return dialogue.answers

"""What is told about transactions and producers is what Apache Kafka tells about them."""

from collections.abc import Callable

import pytest

from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from rig.dialogue import Dialogue
from rig.transaction_dialogue import TRANSACTION_KEY, TransactionDialogue


def descriptions(dialogue: Dialogue) -> None:
    """Each named once: what is named twice, Kafka describes twice, and we once."""
    talk = TransactionDialogue(dialogue)
    producer = talk.producer()
    name = producer.transactional_id
    for names in ([name], [name + "-unknown"], [""], []):
        talk.ask(DescribeTransactionsRequest(transactional_ids=names), version=0)
    talk.add(producer, 0, 1)
    talk.look(producer)
    for topics in (
        [(talk.topic, [0, 7])],
        [(talk.topic, [-1])],
        [("no-such-topic", [0])],
        [("not a name", [0])],
        [("", [0])],
        [],
    ):
        asked = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
        talk.ask(DescribeProducersRequest(topics=asked), version=0)


def lists(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    ongoing, empty, ended = (talk.producer(f"-{name}") for name in ("ongoing", "empty", "ended"))
    talk.add(ongoing, 0)
    talk.add(ended, 0)
    talk.end(ended, commit=True)
    # Ids that could not be names of topics.
    odd = [talk.producer(suffix) for suffix in (":eu/1", " two words", "-caf\u00e9", "-\u03b1")]
    own = {one.transactional_id for one in (ongoing, empty, ended, *odd)}
    for states in (
        [],
        ["Ongoing"],
        ["Empty", "CompleteCommit"],
        ["ongoing"],
        ["Nonsense"],
        ["Ongoing", "Nonsense"],
        ["PrepareEpochFence", "Dead"],
    ):
        for producers in ([], [ongoing.producer_id], [-1]):
            for version in range(3):
                request = ListTransactionsRequest(
                    state_filters=states, producer_id_filters=producers
                )
                list_own(talk, request, version, own)
    for duration_ms in (-1, -5, 0, 3_600_000, 2**62):
        request = ListTransactionsRequest(duration_filter=duration_ms)
        for version in (1, 2):
            list_own(talk, request, version, own)
    for pattern in (
        f"{talk.topic}-e.*",
        f"{talk.topic}-e",
        f"^{talk.topic}-(ended|empty)$",
        "",
        None,
        ".*-ongoing",
        ".*",
        f"{talk.topic}:[a-z]+/[0-9]",
        f"{talk.topic}[^-]+",
        r".*\sw.*",
        ".*caf.",
        "(?i).*CAF\u00c9",
        r".*-\p{Greek}",
        r".*\P{Latin}",
        r".*-\w+",
        "(?-s).*",
        "[",
        "(?=a)b",
    ):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        list_own(talk, request, 2, own)


def list_own(
    talk: TransactionDialogue, request: ListTransactionsRequest, version: int, own: set[str]
) -> None:
    """Other conversations have left theirs."""
    answer = talk.dialogue.exchange(request, version=version)
    listed = sorted(
        (one.transactional_id, one.transaction_state)
        for one in answer.transaction_states
        if one.transactional_id in own
    )
    unknown = sorted(answer.unknown_state_filters)
    talk.dialogue.answers.append((version, answer.error_code, unknown, listed))


def coordinators(dialogue: Dialogue) -> None:
    talk = TransactionDialogue(dialogue)
    name = talk.producer().transactional_id
    for version in range(1, 7):
        for key in (name, ""):
            request = FindCoordinatorRequest(
                key=key, key_type=TRANSACTION_KEY, coordinator_keys=[key, "another"]
            )
            talk.ask(request, version=version)


TALKS: list[Callable[[Dialogue], None]] = [
    descriptions,
    lists,
    coordinators,
]


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_transactions_are_shown_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)

"""`penstock transactions` where a two-phase commit is under way, or nothing is."""

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.transactions import transactions as transactions_group
from penstock.testing import Broker
from rig.command import Outcome
from rig.dialogue import Dialogue
from rig.transaction_dialogue import Producer, TransactionDialogue

Run = Callable[..., Outcome]


@pytest.fixture
def talk(penstock: Broker) -> Iterator[TransactionDialogue]:
    dialogue = Dialogue(penstock.bootstrap, "orders")
    yield TransactionDialogue(dialogue)
    dialogue.close()


@pytest.fixture
def prepared(talk: TransactionDialogue) -> Producer:
    """A sink's transaction that waits for the decision of an outer coordinator."""
    producer = talk.producer("-sink")
    talk.init(producer, version=6, enable2_pc=True)
    talk.produce(producer, version=12)
    return producer


@pytest.fixture
def transactions(run: Run, penstock: Broker) -> Callable[[str], Outcome]:
    return lambda text: run(f"transactions {text}", bootstrap=penstock.bootstrap)


Command = Callable[[str], Outcome]


def test_what_is_prepared_is_shown_without_time_out(
    transactions: Command, prepared: Producer
) -> None:
    [described] = transactions("describe --json").json()
    assert described["transactional_id"] == "orders-sink"
    assert described["two_phase"] and described["timeout_ms"] is None
    assert described["partitions"] == [["orders", 0]]
    assert "none (two-phase)" in transactions("describe").text


def test_what_is_prepared_is_shown_to_whoever_looks_for_what_holds_readers_back(
    transactions: Command, prepared: Producer
) -> None:
    assert transactions("hanging --json").json() == []
    [found] = transactions("hanging --older-than 0s --json").json()
    assert not found["hangs"]
    assert found["reason"] == "waits for the decision of a two-phase commit"


def test_what_was_prepared_by_a_sink_given_up_is_aborted(
    transactions: Command, talk: TransactionDialogue, prepared: Producer
) -> None:
    assert transactions("abort orders-sink").text == "aborted orders-sink\n"
    assert transactions("hanging --older-than 0s --json").json() == []
    assert talk.end(prepared, commit=True, version=5).error_code != 0


def test_where_one_of_many_is_not_there_nothing_is_aborted(
    transactions: Command, prepared: Producer
) -> None:
    refused = transactions("abort orders-sink nobody")
    assert refused.err == "penstock: nobody: there is no such transactional id\n"
    [described] = transactions("describe orders-sink --json").json()
    assert described["state"] == "Ongoing"


def test_what_is_kept_for_another_is_aborted_too(
    transactions: Command, talk: TransactionDialogue, prepared: Producer
) -> None:
    talk.init(prepared, version=6, enable2_pc=True, keep_prepared_txn=True)
    assert transactions("abort orders-sink --json").json() == [
        {"transactional_id": "orders-sink", "aborted": True}
    ]
    assert talk.end(prepared, commit=True, version=5).error_code != 0


def test_where_nothing_is_open_nothing_is_shown(transactions: Command, penstock: Broker) -> None:
    penstock.topic("orders")
    for command in ("list", "describe", "hanging --older-than 0s"):
        assert transactions(f"{command} --json").json() == []


def test_topics_that_are_not_there_are_named(transactions: Command) -> None:
    for command in ("hanging --topic nowhere", "abort --topic nowhere:0 --start-offset 1"):
        refused = transactions(command)
        assert (refused.status, refused.err) == (1, "penstock: nowhere: there is no such topic\n")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["list", "--older-than", "99999999999999999999d"], "longer than brokers can count"),
        (["list", "--producer-id", str(2**63)], "not in the range"),
        (["describe", ""], "has 1 to 32767 bytes, not 0"),
        (["describe", "\udcff"], "is not UTF-8"),
        (["abort", "x" * 40_000], "has 1 to 32767 bytes, not 40000"),
    ],
)
def test_what_no_broker_can_be_asked_is_refused_in_clear_words(words: list[str], why: str) -> None:
    outcome = CliRunner().invoke(transactions_group, words)
    assert outcome.exit_code == 2
    assert why in outcome.output

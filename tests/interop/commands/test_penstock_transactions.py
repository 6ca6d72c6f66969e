"""`penstock transactions`, against Penstock and against Apache Kafka."""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from rig.command import Outcome
from rig.hanging import leave_hanging, talk_with
from rig.transaction_dialogue import TransactionDialogue

NUMBERS = itertools.count(1)
Command = Callable[[str], Outcome]


@pytest.fixture
def command(command: Command) -> Command:
    return lambda text: command(f"transactions {text}")


@pytest.fixture
def talk(address: str) -> Iterator[TransactionDialogue]:
    with talk_with(address, f"seen-{next(NUMBERS)}") as one:
        yield one


def refusal(outcome: Outcome) -> str:
    """What was said by a command that failed, in its one line."""
    assert outcome.status != 0
    assert outcome.err.count("\n") == 1
    return outcome.err.removeprefix("penstock: ").strip()


def test_transactions_are_listed_by_state_producer_age_and_pattern(
    command: Command, talk: TransactionDialogue
) -> None:
    ongoing, ended = talk.producer("-ongoing"), talk.producer("-ended")
    talk.add(ongoing, 0)
    talk.add(ended, 0)
    talk.end(ended, commit=True)
    own = f"--pattern {talk.topic}-.* --json"

    def listed(arguments: str) -> list[str]:
        return [one["transactional_id"] for one in command(f"list {arguments}").json()]

    assert listed(own) == [ended.transactional_id, ongoing.transactional_id]
    assert listed(f"{own} --state Ongoing --state Empty") == [ongoing.transactional_id]
    assert listed(f"{own} --producer-id {ended.producer_id}") == [ended.transactional_id]
    assert listed(f"{own} --older-than 1h") == []
    [one] = command(f"list {own} --state CompleteCommit").json()
    assert (one["state"], one["producer_id"]) == ("CompleteCommit", ended.producer_id)
    text = command("list --state Ongoing").text
    assert ongoing.transactional_id in text and ended.transactional_id not in text
    assert refusal(command("list --state Nonsense")).startswith(
        "no state of a transaction is called 'Nonsense'; there are Empty, Ongoing,"
    )
    assert refusal(command("list --pattern [")) == "[: this is no regular expression of RE2"
    assert "expected a duration" in refusal(command("list --older-than long"))


def test_a_transaction_is_described_with_its_producer_time_and_partitions(
    command: Command, talk: TransactionDialogue
) -> None:
    producer = talk.producer()
    name = producer.transactional_id
    [before] = command(f"describe {name} --json").json()
    assert (before["state"], before["partitions"], before["start_ms"]) == ("Empty", [], None)
    talk.add(producer, 1, 0)
    [during] = command(f"describe {name} --json").json()
    assert (during["state"], during["two_phase"]) == ("Ongoing", False)
    assert (during["producer_id"], during["producer_epoch"]) == (producer.producer_id, 0)
    assert during["partitions"] == [[talk.topic, 0], [talk.topic, 1]]
    assert during["timeout_ms"] == 600_000
    assert 0 <= during["open_ms"] < 60_000
    row = next(line for line in command("describe").lines if name in line)
    assert re.search(rf"Ongoing.* 10m 0s +{talk.topic}:0,1", row), row
    assert refusal(command("describe nobody")) == "nobody: there is no such transactional id"


def test_an_open_transaction_is_aborted_by_its_id_and_its_producer_fenced(
    command: Command, talk: TransactionDialogue
) -> None:
    producer = talk.producer()
    name = producer.transactional_id
    assert refusal(command(f"abort {name}")) == (
        f"{name}: no transaction is open: its state is Empty"
    )
    talk.add(producer, 0, 1)
    talk.produce(producer, 0)
    assert command(f"abort {name}").text == f"aborted {name}\n"
    [after] = command(f"describe {name} --json").json()
    assert (after["state"], after["partitions"]) == ("CompleteAbort", [])
    for version in (4, 5):
        assert talk.end(producer.copy(), commit=False, version=version).error_code != 0
    assert refusal(command(f"abort {name}")).endswith("its state is CompleteAbort")
    assert refusal(command("abort nobody")) == "nobody: there is no such transactional id"


def test_what_hangs_in_a_partition_is_found_and_aborted(
    command: Command, talk: TransactionDialogue
) -> None:
    late = leave_hanging(talk)
    watched = f"hanging --topic {talk.topic}"
    [found] = command(f"{watched} --json").json()
    assert (found["topic"], found["partition"], found["start_offset"]) == (talk.topic, 0, 1)
    assert (found["producer_id"], found["producer_epoch"]) == (late.producer_id, late.epoch)
    assert found["hangs"] and found["transactional_id"] == late.transactional_id
    assert "not in the transaction of its coordinator (CompleteCommit)" in command(watched).text
    assert found in [
        {**one, "open_ms": found["open_ms"]} for one in command("hanging --json").json()
    ]
    abort = f"abort --topic {talk.topic}:0 --start-offset"
    assert refusal(command(f"{abort} 0")) == (
        f"{talk.topic}-0: no transaction that begins at 0 is open here"
    )
    assert command(f"{abort} 1").text == f"aborted {talk.topic}-0 at 1\n"
    assert command(f"{watched} --json").json() == []
    assert refusal(command(f"{abort} 1")).endswith("no transaction that begins at 1 is open here")
    talk.look(late)
    *_, (_, _, committed), (_, _, written) = talk.dialogue.answers
    assert committed == written, "readers of what is committed get to the end again"


def test_what_is_merely_open_is_no_hanging_transaction(
    command: Command, talk: TransactionDialogue
) -> None:
    """It is shown once it is open for long, and ends by its id: a marker by hand would end it in
    one partition alone.
    """
    producer = talk.producer()
    talk.add(producer, 0, 1)
    talk.produce(producer, 0)
    watched = f"hanging --topic {talk.topic} --json"
    assert command(watched).json() == []
    [found] = command(f"{watched} --older-than 0s").json()
    assert (found["hangs"], found["transactional_id"]) == (False, producer.transactional_id)
    refused = refusal(command(f"abort --topic {talk.topic}:0 --start-offset 0"))
    assert refused == (
        f"{talk.topic}-0: its coordinator looks after it:"
        f" abort '{producer.transactional_id}' by that id"
    )
    assert talk.end(producer, commit=True).error_code == 0


@pytest.mark.parametrize(
    "arguments",
    ["", "--start-offset 1", "--topic orders:0", "an-id --topic orders:0 --start-offset 1"],
)
def test_abort_wants_to_know_what(command: Command, arguments: str) -> None:
    assert refusal(command(f"abort {arguments}")).startswith("abort what? Give IDs, or")

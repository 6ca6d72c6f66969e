"""Apache Kafka's own tool for transactions: it sees them, finds what hangs, and ends both."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from rig.apache_kafka.agent import KafkaAgent, ToolRun
from rig.hanging import leave_hanging, talk_with
from rig.transaction_dialogue import TransactionDialogue

NUMBERS = itertools.count(1)
Tool = Callable[..., list[list[str]]]


@pytest.fixture
def tool(kafka_agent: KafkaAgent, bootstrap: str) -> Tool:
    """Runs it; the cells of the table that it prints."""

    def run(*arguments: str) -> list[list[str]]:
        return rows(
            kafka_agent.run_tool("kafka-transactions", "--bootstrap-server", bootstrap, *arguments)
        )

    return run


def rows(run: ToolRun) -> list[list[str]]:
    assert run.status == 0, run.output
    lines = [line.split("\t") for line in run.output.splitlines() if "\t" in line]
    return [[cell.strip() for cell in line] for line in lines[1:]]


@pytest.fixture
def talk(bootstrap: str) -> Iterator[TransactionDialogue]:
    with talk_with(bootstrap, f"tooled-{next(NUMBERS)}") as one:
        yield one


def test_transactions_are_listed_and_described(tool: Tool, talk: TransactionDialogue) -> None:
    producer = talk.producer()
    name = producer.transactional_id
    talk.add(producer, 0, 1)
    listed = {row[0]: row for row in tool("list")}
    assert listed[name][2:4] == [str(producer.producer_id), "Ongoing"]
    assert [row[0] for row in tool("list", "--transactional-id-pattern", f"{name}.*")] == [name]
    hour_ms = "3600000"
    assert name not in [row[0] for row in tool("list", "--duration-filter", hour_ms)]
    [described] = tool("describe", "--transactional-id", name)
    assert described[1:6] == [name, str(producer.producer_id), "0", "Ongoing", "600000"]
    assert sorted(described[8].split(",")) == [f"{talk.topic}-0", f"{talk.topic}-1"]


def test_producers_of_a_partition_are_described(tool: Tool, talk: TransactionDialogue) -> None:
    producer = talk.producer()
    talk.add(producer, 0)
    talk.produce(producer, 0)
    [described] = tool("describe-producers", "--topic", talk.topic, "--partition", "0")
    assert described[:2] == [str(producer.producer_id), "0"]
    assert described[5] == "0"  # where its transaction begins
    assert tool("describe-producers", "--topic", talk.topic, "--partition", "1") == []


def test_what_hangs_is_found_and_aborted(tool: Tool, talk: TransactionDialogue) -> None:
    producer = leave_hanging(talk)
    [found] = tool("find-hanging", "--topic", talk.topic)
    assert found[:4] == [talk.topic, "0", str(producer.producer_id), "0"]
    assert found[5] == "1"  # where it begins
    assert found in tool("find-hanging", "--broker-id", "1")
    tool("abort", "--topic", talk.topic, "--partition", "0", "--start-offset", "1")
    assert tool("find-hanging", "--topic", talk.topic) == []
    talk.look(producer)
    *_, (_, _, committed), (_, _, written) = talk.dialogue.answers
    assert committed == written, "readers of what is committed get to the end again"


def test_what_hangs_is_aborted_by_its_producer(tool: Tool, talk: TransactionDialogue) -> None:
    producer = leave_hanging(talk)
    tool(
        *("abort", "--topic", talk.topic, "--partition", "0"),
        *("--producer-id", str(producer.producer_id), "--producer-epoch", "0"),
        *("--coordinator-epoch", "0"),
    )
    assert tool("find-hanging", "--topic", talk.topic) == []


def test_an_open_transaction_is_terminated(tool: Tool, talk: TransactionDialogue) -> None:
    producer = talk.producer()
    name = producer.transactional_id
    talk.add(producer, 0)
    talk.produce(producer, 0)
    tool("forceTerminateTransaction", "--transactionalId", name)
    talk.await_end(producer)
    [described] = tool("describe", "--transactional-id", name)
    assert described[4] in ("Empty", "CompleteAbort")
    assert talk.end(producer, commit=True).error_code != 0

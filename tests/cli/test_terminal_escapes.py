"""What others sent never commands the operator's terminal, and never forges a line."""

import json
import logging
import os
import pty
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.cli.escape import escaped, escaped_bytes, escaped_json
from penstock.cli.logs import KeyValueFormatter
from penstock.testing import Broker
from rig.cluster_questions import until
from rig.every_command import HOSTILE, SHOWN, strings_of

Run = Callable[..., Any]


def test_what_is_not_printable_is_escaped_and_the_rest_stays() -> None:
    assert escaped(HOSTILE) == SHOWN
    assert escaped("naïve 日本 🙂") == "naïve 日本 🙂"
    assert escaped_bytes(b"a\tb\x1b\xff\n") == "a\tb\\x1b\\xff\\n"


@pytest.mark.parametrize("text", [HOSTILE, "\x7f", "\x9b", "\u202e", "\U000e0001", "\ud800", "é🙂"])
def test_json_stays_json_of_the_same_text(text: str) -> None:
    shown = escaped_json(json.dumps([text], indent=2, ensure_ascii=False))
    assert json.loads(shown) == [text]
    assert all(one.isprintable() for one in shown.replace("\n", ""))


def commit_as(group: str, broker: Broker) -> None:
    topic = broker.topic()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def test_a_hostile_group_id_is_one_harmless_cell_of_a_table(run: Run, penstock: Broker) -> None:
    commit_as(HOSTILE, penstock)
    listed = run("groups list", bootstrap=penstock.bootstrap)
    assert SHOWN in listed.text
    assert "\x1b" not in listed.text
    assert "\x9b" not in listed.text
    assert run("groups list --json", bootstrap=penstock.bootstrap).json()[0]["group"] == HOSTILE


def test_a_hostile_group_id_is_harmless_in_a_picture_of_the_cluster(
    run: Run, penstock: Broker
) -> None:
    commit_as(HOSTILE, penstock)
    shown = run("top --once --interval 0.1", bootstrap=penstock.bootstrap)
    assert SHOWN in shown.text
    assert "\x1b" not in shown.text
    assert "\x9b" not in shown.text
    told = run("top --interval 0.1 --format json", bootstrap=penstock.bootstrap)
    assert told.json()["groups"][0]["group"] == HOSTILE
    assert "\x9b" not in told.text


def test_a_hostile_name_in_an_error_is_escaped(run: Run, penstock: Broker) -> None:
    outcome = run("groups describe 'no\x1bsuch'", bootstrap=penstock.bootstrap)
    assert outcome.status != 0
    assert "no\\x1bsuch" in outcome.err
    assert "\x1b" not in outcome.err


def test_a_hostile_name_in_the_log_is_one_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "client=%s", (HOSTILE,), None)
    line = KeyValueFormatter().format(record)
    assert line.endswith(f"client={SHOWN}")


@pytest.mark.parametrize(
    ("option", "expected"), [((), b"a\\x1b[2Jb\r\n"), (("--raw",), b"a\x1b[2Jb\r\n")]
)
def test_consume_escapes_on_a_terminal_unless_told_not_to(
    option: tuple[str, ...], expected: bytes, penstock: Broker
) -> None:
    topic = penstock.topic()
    producer = Producer({"bootstrap.servers": penstock.bootstrap})
    producer.produce(topic, b"a\x1b[2Jb")
    producer.flush()
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "penstock.cli.main", "consume", topic, *option]
    subprocess.run(
        [*command, "--bootstrap", penstock.bootstrap], stdout=terminal, check=True, timeout=120
    )
    os.close(terminal)
    assert os.read(ours, 1000) == expected
    os.close(ours)


def test_consume_into_a_pipe_prints_values_as_they_are(run: Run, penstock: Broker) -> None:
    topic = penstock.topic()
    producer = Producer({"bootstrap.servers": penstock.bootstrap})
    producer.produce(topic, b"a\x1b[2Jb")
    producer.flush()
    assert run(f"consume {topic}", bootstrap=penstock.bootstrap).out == b"a\x1b[2Jb\n"


def harmless(run: Run, broker: Broker, command: str) -> Any:
    """The JSON of a command that shows the hostile name in its table, and there as it is."""
    shown = run(command, bootstrap=broker.bootstrap)
    assert SHOWN in shown.text, shown.text + shown.err
    assert all(line.isprintable() for line in shown.lines)
    told = run(f"{command} --json")
    assert all(line.isprintable() for line in told.lines)
    values = json.loads(told.out)
    assert any(HOSTILE in text for text in strings_of(values))
    return values


@pytest.mark.penstock(settings={"broker.rack": HOSTILE})
@pytest.mark.parametrize(
    "command",
    ["cluster describe", "top --once --interval 0.1", "configs describe --broker 1 --all"],
)
def test_a_hostile_rack_is_harmless(run: Run, penstock: Broker, command: str) -> None:
    harmless(run, penstock, command)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_hostile_client_id_is_harmless(run: Run, penstock: Broker, protocol: str) -> None:
    topic = penstock.topic()
    consumer = Consumer(
        {
            "bootstrap.servers": penstock.bootstrap,
            "group.id": "billing",
            "client.id": HOSTILE,
            "group.protocol": protocol,
        }
    )
    consumer.subscribe([topic])

    def is_in() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    until("it is a member", is_in)
    [group] = harmless(run, penstock, "groups describe billing")
    assert len(group["members"]) == 1
    consumer.close()


def test_hostile_keys_of_a_hot_partition_are_harmless(run: Run, penstock: Broker) -> None:
    topic = penstock.topic()
    enough = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": penstock.bootstrap})
        while not enough.wait(0.01):
            producer.produce(topic, b"v" * 1_000, key=HOSTILE.encode())
            assert producer.flush(60) == 0

    writer = threading.Thread(target=write)
    writer.start()
    try:
        harmless(run, penstock, "partitions hot --for 1s --keys 3")
    finally:
        enough.set()
        writer.join()


def test_a_transaction_with_a_hostile_name_is_aborted(run: Run, penstock: Broker) -> None:
    topic = penstock.topic()
    for options in ("", "--json"):
        producer = Producer({"bootstrap.servers": penstock.bootstrap, "transactional.id": HOSTILE})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, b"v")
        assert producer.flush(60) == 0
        command = f"transactions abort {shlex.quote(HOSTILE)} {options}"
        outcome = run(command, bootstrap=penstock.bootstrap)
        assert outcome.status == 0, outcome.err
        assert all(line.isprintable() for line in (*outcome.lines, *outcome.err.splitlines()))
        assert SHOWN in outcome.text or HOSTILE in set(strings_of(outcome.json()))


def test_hostile_names_of_folders_are_harmless(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "evil\x1b[2J\nforged \x9b31m"
    shown = "evil\\x1b[2J\\nforged \\x9b31m"
    for command, within in (
        ("storage format --data", "data"),
        ("storage info --data", "data"),
        ("security init", "certificates"),
    ):
        outcome = run(f"{command} {shlex.quote(str(folder / within))}")
        assert outcome.status == 0, outcome.err
        assert shown in outcome.text
        assert all(line.isprintable() for line in outcome.lines), command
    [meta] = folder.glob("data/*/meta.properties")
    outcome = run(f"log dump {shlex.quote(str(meta))}")
    assert outcome.lines[0].endswith("/meta.properties: directory identity")
    assert shown in outcome.lines[0]

"""The command itself: help, trouble, and the demo."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.cli import demo_clients
from penstock.cli.command_group import CommandGroup
from penstock.cli.demo_check import KEYS, OrderCheck, expected_records
from penstock.cli.main import NOUNS, penstock
from penstock.cli.typed_text import ANY_BYTES

Run = Callable[..., Any]


def test_help_names_every_noun(run: Run) -> None:
    outcome = run("--help")
    assert outcome.status == 0
    assert all(noun in outcome.text for noun in NOUNS)


@pytest.mark.parametrize("noun", list(NOUNS))
def test_every_noun_has_help(run: Run, noun: str) -> None:
    outcome = run(f"{noun} --help")
    assert outcome.status == 0
    assert f"Usage: penstock {noun}" in outcome.text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topicz", "there is no command 'topicz': did you mean `penstock topics`?"),
        ("topic list", "there is no command 'topic': did you mean `penstock topics list`?"),
        ("topic lsit x", "there is no command 'topic': did you mean `penstock topics list`?"),
        ("topics lst --json", "there is no command 'lst': did you mean `penstock topics list`?"),
        ("topics xyzzy", "there is no command 'xyzzy': see `penstock topics --help`"),
        ("xyzzy", "there is no command 'xyzzy': see `penstock --help`"),
    ],
)
def test_an_unknown_command_is_one_line_that_says_which_was_meant(
    run: Run, command: str, said: str
) -> None:
    outcome = run(command)
    assert (outcome.status, outcome.err) == (2, f"penstock: {said}\n")


def commands() -> dict[str, click.Command]:
    """All of them, by what is typed."""
    found: dict[str, click.Command] = {}

    def walk(command: click.Command, path: str) -> None:
        found[path] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk(inner, f"{path} {name}")

    walk(penstock, "penstock")
    return found


def test_every_group_of_commands_suggests() -> None:
    groups = [path for path, one in commands().items() if isinstance(one, click.Group)]
    assert len(groups) > 5
    assert all(isinstance(commands()[path], CommandGroup) for path in groups)


def test_every_address_of_brokers_has_the_name_of_kafkas_tools_too() -> None:
    options = [one for command in commands().values() for one in command.params]
    of_brokers = [one for one in options if one.name == "bootstrap"]
    assert len(of_brokers) > 20
    assert all(one.opts == ["--bootstrap", "--bootstrap-server"] for one in of_brokers)


def shown_options() -> list[tuple[str, click.Option]]:
    return [
        (path, option)
        for path, command in commands().items()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    ]


def test_every_option_says_what_it_does_and_none_what_it_will_do() -> None:
    silent = [(path, option.opts) for path, option in shown_options() if not option.help]
    assert silent == []
    to_come = re.compile(r"not yet|come later|to come|planned|not supported|not implemented")
    helps = [text for _, one in shown_options() if (text := one.help) and to_come.search(text)]
    helps += [text for one in commands().values() if (text := one.help) and to_come.search(text)]
    assert helps == []


def test_json_says_where_it_is_one_object_a_line() -> None:
    by_line = [
        path
        for path, option in shown_options()
        if option.name == "as_json" and "one object a line" in (option.help or "")
    ]
    assert by_line == ["penstock consume", "penstock dlq list", "penstock cdc search"]


def test_help_shows_whole_sentences(run: Run) -> None:
    outcome = run("dlq --help")
    assert "..." not in outcome.text.split("Commands:")[1]


def completed(words: str, tmp_path: Path) -> list[str]:
    """What bash offers after these words, with the completion that the README shows."""
    script = tmp_path / "complete.sh"
    script.write_text(
        'eval "$(_PENSTOCK_COMPLETE=bash_source penstock)"\n'
        f"COMP_WORDS=({words})\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "_penstock_completion penstock\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_and_choices(tmp_path: Path) -> None:
    assert completed("penstock top", tmp_path) == ["topics", "top"]
    assert completed("penstock topi", tmp_path) == ["topics"]
    assert completed("penstock topics de", tmp_path) == ["delete", "delete-records", "describe"]
    assert "--replication-factor" in completed("penstock topics create --rep", tmp_path)
    assert completed("penstock produce x --acks a", tmp_path) == ["all"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("dlq replay dead --reason ''", "--reason"),
        ("dlq replay dead --to ''", "--to"),
        ("dlq replay dead --group ''", "--group"),
        ("transactions abort --sink ''", "--sink"),
        ("transactions list --pattern ''", "--pattern"),
        ("acls grant producer alice --topic ''", "--topic"),
    ],
)
def test_an_empty_choice_is_not_taken_for_none(run: Run, command: str, option: str) -> None:
    outcome = run(command)
    assert outcome.status == 2
    assert outcome.err == f"penstock: Invalid value for '{option}': it is empty\n"


@pytest.mark.parametrize(
    ("command", "parameter", "what"),
    [
        ("topics create orders caf\udcff", "NAME...", r"'caf\xff'"),
        ("topics describe \udcff", "[NAME...]", r"'\xff'"),
        ("produce \udcff", "TOPIC", r"'\xff'"),
        ("produce orders --transactional-id \udcff", "--transactional-id", "it"),
        ("consume \udcff", "TOPIC", r"'\xff'"),
        ("consume orders --group \udcff", "--group", "it"),
        ("perf produce \udcff", "TOPIC", r"'\xff'"),
    ],
)
def test_text_that_is_not_utf8_is_refused_before_a_broker_is_asked(
    run: Run, command: str, parameter: str, what: str
) -> None:
    outcome = run(command)
    said = f"penstock: Invalid value for '{parameter}': {what} is not UTF-8\n"
    assert (outcome.status, outcome.err) == (2, said)


def test_paths_and_what_is_compared_with_bytes_of_records_may_be_any_bytes() -> None:
    options = [
        f"{path} {'/'.join(option.opts)}"
        for path, option in shown_options()
        if option.type is ANY_BYTES
    ]
    assert options == [
        "penstock serve --data",
        "penstock serve --set",
        "penstock serve --secured",
        "penstock storage format --data",
        "penstock storage info --data",
        "penstock cluster add-controller --data",
        "penstock produce --key-separator",
        "penstock produce --headers",
        "penstock produce --null-marker",
        "penstock consume -f/--format",
        "penstock consume --key-separator",
    ]


def test_a_directory_whose_name_is_not_utf8_is_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data\udcff").mkdir()
    assert run("storage format --data data\udcff").status == 0
    assert list((tmp_path / "data\udcff").iterdir())


def test_broker_that_is_not_there_is_told_with_its_address(run: Run) -> None:
    outcome = run("topics list --bootstrap 127.0.0.1:1")
    assert outcome.status == 1
    reason = "cannot connect to 127.0.0.1:1: Connection refused"
    assert outcome.err == f"penstock: no broker can be reached: {reason}\n"


def test_address_that_is_none_is_told(run: Run) -> None:
    outcome = run("topics list --bootstrap nowhere")
    assert (outcome.status, outcome.err) == (
        1,
        "penstock: 'nowhere' is no address: expected HOST:PORT\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_in_one_line() -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "list"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert (done.returncode, done.stderr) == (1, "penstock: No space left on device\n")


@pytest.mark.parametrize(
    "command",
    ["--help", "--version", "topics --help", "pipeline list", "pipeline list --json"],
)
def test_output_that_nobody_reads_ends_a_command_as_a_broken_pipe_does(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "penstock.cli.main", *command.split()]
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            words, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_plain_demo_writes_reads_and_checks(run: Run) -> None:
    outcome = run("demo --plain --records 20000")
    assert outcome.status == 0, outcome.err
    assert "all 20,000 records are there once" in " ".join(outcome.text.split())


def test_plain_demo_needs_no_other_client(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_clients, "confluent_kafka", None)
    outcome = run("demo --plain --records 20000 --json")
    assert outcome.status == 0, outcome.err
    assert (outcome.json()["client"], outcome.json()["records"]) == ("penstock", 20_000)


def test_demo_tells_of_a_node_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_clients, "SILENCE_SECONDS_MAX", 0.2)
    job = demo_clients.confluent_job("127.0.0.1:1", "demo")
    assert job is not None
    with pytest.raises(demo_clients.DemoError, match="the node does not answer: "):
        job.consume(1, lambda found: None)


def test_demo_would_notice_loss_reordering_and_duplicates() -> None:
    records = [(0, key, value) for key, value in expected_records(2 * KEYS)]
    good = OrderCheck()
    for record in records:
        good.take(*record)
    assert good.error(2 * KEYS) is None
    for wrong in (
        records[1:],
        records[:-1],
        [*records, records[-1]],
        [*records[KEYS:], *records[:KEYS]],
        [*records[:-1], (1, *records[-1][1:])],
    ):
        check = OrderCheck()
        for record in wrong:
            check.take(*record)
        assert check.error(2 * KEYS) is not None

"""`penstock produce` and `penstock consume` against a broker."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Broker

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_broker(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock.bootstrap)


def test_lines_of_files_become_records_and_come_back(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic()
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"one\ntwo\r\n\n")
    second.write_bytes("vier ä".encode())
    produced = run(f"produce {topic} {first} {second}")
    assert (produced.status, produced.err) == (0, f"produced 4 records to {topic}\n")
    assert run(f"consume {topic}").out == "one\ntwo\n\nvier ä\n".encode()


def test_keys_headers_and_nulls_are_said_in_lines(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic()
    lines = tmp_path / "lines"
    lines.write_bytes(b"k1:v:1\nNULL:v2\nk3:NULL\n\xff:\xfe\n")
    command = f"produce {topic} {lines} --key-separator : --null-marker NULL"
    options = "--headers a=1 --headers b= --compression zstd --json"
    assert run(f"{command} {options}").json() == {"topic": topic, "records": 4}
    read = [json.loads(line) for line in run(f"consume {topic} --json").lines]
    assert [(r.get("key"), r.get("value")) for r in read[:3]] == [
        ("k1", "v:1"),
        (None, "v2"),
        ("k3", None),
    ]
    assert (read[3]["key_base64"], read[3]["value_base64"]) == ("/w==", "/g==")
    assert read[0]["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": ""}]
    assert [r["offset"] for r in read] == [0, 1, 2, 3]
    assert run(f"consume {topic} --key-separator =").out == b"k1=v:1\n=v2\nk3=\n\xff=\xfe\n"


def test_a_header_without_a_value_is_refused(run: Run, penstock: Broker) -> None:
    outcome = run(f"produce {penstock.topic()} --headers foo")
    assert outcome.status == 2
    assert "'foo': expected NAME=VALUE" in outcome.err


def test_lines_before_a_bad_one_are_produced_and_it_is_told(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic()
    lines = tmp_path / "lines"
    lines.write_text("a:1\nb:2\nnothing\nc:3\n")
    command = [sys.executable, "-m", "penstock.cli.main", "produce", topic, str(lines)]
    command += ["--key-separator", ":"]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "penstock: a line without the key separator: 'nothing'"
        " (the 2 records before it were produced)\n"
    )
    assert run(f"consume {topic} --key-separator :").lines == ["a:1", "b:2"]


def test_separators_and_markers_need_not_be_text(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic()
    lines = tmp_path / "lines"
    lines.write_bytes(b"k\xff\xfe\nl\xffv\n")
    options = ["--key-separator", b"\xff", "--null-marker", b"\xfe", "--headers", b"h=\xfd"]
    command = [sys.executable, "-m", "penstock.cli.main", "produce", topic, lines, *options]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, f"produced 2 records to {topic}\n")
    read = [json.loads(line) for line in run(f"consume {topic} --json").lines]
    assert [(r["key"], r["value"]) for r in read] == [("k", None), ("l", "v")]
    assert read[0]["headers"] == [{"name": "h", "value_base64": "/Q=="}]


def test_the_name_of_a_header_is_text(run: Run, penstock: Broker) -> None:
    outcome = run(f"produce {penstock.topic()} --headers \udcff=1")
    assert outcome.status == 2
    assert outcome.err.endswith("is not UTF-8\n")
    assert outcome.err.count("\n") == 1


def test_a_closed_standard_input_is_told_in_one_line(penstock: Broker) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "produce", penstock.topic()]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command],
        capture_output=True,
        timeout=120,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: standard input is closed")
    assert done.stderr.count("\n") == 1


def test_an_empty_device_as_standard_input_has_no_records(penstock: Broker) -> None:
    """So are commands run by cron, systemd and `docker exec` without -i."""
    topic = penstock.topic()
    command = [sys.executable, "-m", "penstock.cli.main", "produce", topic]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, f"produced 0 records to {topic}\n")


def test_records_of_one_transaction_are_all_there_or_none(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic(partitions=3)
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("a:1\nb:2\n")
    bad.write_text("c:3\nnothing\n")
    command = f"produce {topic} --key-separator : --transactional-id loader"
    assert run(f"{command} {bad}").status == 1
    assert run(f"{command} {good} --json").json() == {"topic": topic, "records": 2}
    assert sorted(run(f"consume {topic} --committed").lines) == ["1", "2"]
    assert run(f"{command} {good} --acks 1").status == 2


def test_standard_input_is_read_to_its_end(penstock: Broker) -> None:
    topic = penstock.topic()
    command = [sys.executable, "-m", "penstock.cli.main", "produce", topic]
    done = subprocess.run(command, input=b"a\nb\nc", capture_output=True, timeout=120, check=True)
    assert done.stderr.decode() == f"produced 3 records to {topic}\n"


def test_reading_starts_where_it_is_told(run: Run, penstock: Broker, tmp_path: Path) -> None:
    topic = penstock.topic(partitions=2)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(10)))
    run(f"produce {topic} {lines} --partition 1")
    assert run(f"consume {topic} --partition 1 --from 7").lines == ["7", "8", "9"]
    assert run(f"consume {topic} --partition 1 --from earliest --max 2").lines == ["0", "1"]
    assert run(f"consume {topic} --from latest").lines == []
    assert run(f"consume {topic} --partition 0").lines == []
    written = json.loads(run(f"consume {topic} --max 1 --json").text)["timestamp_ms"]
    assert len(run(f"consume {topic} --from @{written}").lines) == 10
    assert run(f"consume {topic} --from @{written + 60_000}").lines == []
    assert len(run(f"consume {topic} --from 2001-01-01").lines) == 10
    assert run(f"consume {topic} --follow --from earliest --max 10").lines[-1] == "9"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("consume nope", "nope: there is no such topic"),
        ("produce nope {lines}", "nope: there is no such topic"),
        ("produce a/b {lines}", "a/b: no topic can have this name"),
        ("configs describe --topic nope", "nope: there is no such topic"),
        ("consume {topic} --partition 3", "no such partition"),
        ("consume {topic} --from 99", "ends at offset 0"),
        ("consume {topic} --from soon", "expected earliest"),
        ("produce {topic} {lines} --partition 3", "partitions 0 to 0"),
        ("produce {topic} {lines} --key-separator =", "without the key separator"),
        ("produce {topic} /no/such/file", "/no/such/file"),
    ],
)
def test_trouble_is_one_line_and_an_exit_status(
    run: Run, penstock: Broker, tmp_path: Path, command: str, said: str
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    outcome = run(command.format(topic=penstock.topic(), lines=lines))
    assert outcome.status != 0
    assert said in outcome.err
    assert outcome.err.startswith("penstock: ")
    assert outcome.err.count("\n") == 1


def test_record_that_the_broker_refuses_fails_the_command(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic(max_message_bytes=200)
    lines = tmp_path / "lines"
    lines.write_text("x" * 300)
    outcome = run(f"produce {topic} {lines}")
    assert outcome.status == 1
    assert outcome.err.startswith(f"penstock: {topic}-0: ")


def test_a_record_that_is_refused_is_told_with_how_many_were_written(
    run: Run, penstock: Broker, tmp_path: Path
) -> None:
    topic = penstock.topic(max_message_bytes=200)
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n" + "x" * 300 + "\nfour\n")
    for command in (f"produce {topic} {lines}", f"produce {topic} {lines} --acks 1"):
        outcome = run(command)
        assert outcome.status == 1
        assert outcome.err.startswith(f"penstock: {topic}-0: ")
        assert outcome.err.endswith(f" (produced 3 records to {topic})\n")
    assert run(f"consume {topic}").lines == ["one", "two", "four"] * 2

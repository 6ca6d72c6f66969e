"""What is typed after `penstock groups`: scopes, times, files, and what can't be meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.cli.groups_scope import parse_scope, read_offsets_file
from penstock.cli.times import duration_text, parse_duration_ms, parse_time_ms
from penstock.model.identity import TopicPartition

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5_400), ("2d", 172_800), ("PT1H30M", 5_400), ("P1DT1S", 86_401)],
)
def test_durations_are_short_or_as_kafka_wants_them(text: str, seconds: int) -> None:
    assert parse_duration_ms(text) == seconds * 1_000


@pytest.mark.parametrize("text", ["", "P", "PT", "1x", "m", "-1h", "1h 5m"])
def test_other_durations_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration_ms(text)


def test_times_are_iso_in_utc_or_milliseconds() -> None:
    assert parse_time_ms("1970-01-01T00:00:01") == 1_000
    assert parse_time_ms("1970-01-01T01:00:01+01:00") == 1_000
    assert parse_time_ms("@1500") == 1_500


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (250, "0.250s"),
        (65_000, "1m 5s"),
        (3_600_000, "1h 0m"),
        (90_000_000, "1d 1h"),
    ],
)
def test_durations_are_shown_in_two_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_scope_is_a_topic_or_some_of_its_partitions() -> None:
    assert parse_scope("orders") == ("orders", None)
    assert parse_scope("orders:0,12") == ("orders", (0, 12))
    for text in ("", ":1", "orders:", "orders:x", "orders:1,"):
        with pytest.raises(ValueError):
            parse_scope(text)


def test_file_of_offsets_is_as_kafka_exports_it(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text('"orders",0,17\norders,1,4\n\n')
    assert read_offsets_file(file) == {
        TopicPartition("orders", 0): 17,
        TopicPartition("orders", 1): 4,
    }
    file.write_text("orders,0,17\norders;1;4\n")
    with pytest.raises(click.UsageError, match=r":2: expected TOPIC,PARTITION,OFFSET"):
        read_offsets_file(file)
    file.write_bytes(b"\x7fELF\xd0")
    with pytest.raises(click.UsageError, match=r":1: expected TOPIC,PARTITION,OFFSET"):
        read_offsets_file(file)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("groups reset-offsets g --topic t", "where to? Give one of --to-earliest"),
        ("groups reset-offsets g --topic t --to-latest --to-offset 1", "where to?"),
        ("groups reset-offsets g --to-latest", "which partitions?"),
        ("groups reset-offsets g --topic t --all-topics --to-latest", "which partitions?"),
        ("groups reset-offsets g --topic t:x --to-latest", "expected TOPIC or TOPIC:0,1"),
        ("groups reset-offsets g --topic t --to-datetime soon", "expected a time"),
        ("groups reset-offsets g --topic t --by-duration long", "expected a duration"),
        ("groups reset-offsets g --topic t --to-offset -1", "--to-offset"),
        ("groups delete-offsets g", "which partitions? Give --topic"),
        ("groups list --type heap", "--type"),
        ("groups delete", "GROUP"),
        ("consume t --group g --partition 0", "--partition does not go with --group"),
        ("consume t --group g --from 7", "reset-offsets"),
    ],
)
def test_what_cannot_be_meant_is_told_before_a_broker_is_asked(
    run: Run, command: str, said: str
) -> None:
    outcome = run(command, bootstrap="127.0.0.1:1")
    assert outcome.status == 2
    assert said in outcome.err
    assert outcome.err.startswith("penstock: ")
    assert outcome.err.count("\n") == 1

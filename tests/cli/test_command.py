"""The command itself: help, trouble, and the demo."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.cli import demo_clients
from penstock.cli.demo_check import KEYS, OrderCheck, expected_records
from penstock.cli.main import NOUNS

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


def test_unknown_noun_is_one_line(run: Run) -> None:
    outcome = run("topicz")
    assert outcome.status == 2
    assert outcome.err == "penstock: No such command 'topicz'.\n"


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


def test_plain_demo_writes_reads_and_checks(run: Run) -> None:
    outcome = run("demo --plain --records 20000")
    assert outcome.status == 0, outcome.err
    assert "all 20,000 records are there once" in " ".join(outcome.text.split())


def test_plain_demo_needs_no_other_client(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_clients, "confluent_kafka", None)
    outcome = run("demo --plain --records 20000 --json")
    assert outcome.status == 0, outcome.err
    assert (outcome.json()["client"], outcome.json()["records"]) == ("penstock", 20_000)


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

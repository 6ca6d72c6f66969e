"""The views of a ledger on frames of a few rows, and the generator that fills one."""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.spark.pipelines.replay import steps
from penstock.spark.pipelines.replay.checkpoint_progress import reached
from penstock.spark.pipelines.replay.generate import events
from rig.ledger import folded

RECORDS = "key binary, value binary, partition int, offset long"


def event(account: str, kind: str, cents: int = 0, at_ms: int = 0) -> dict[str, object]:
    fields = {"account": account, "kind": kind, "amount_cents": cents, "at_ms": at_ms}
    return {"event_id": "e", **fields}


def ledger(spark: SparkSession, *values: Mapping[str, object]) -> DataFrame:
    rows = [(b"k", json.dumps(value).encode(), 0, n) for n, value in enumerate(values)]
    return steps.ledger_events(spark.createDataFrame(rows, RECORDS))


def test_a_balance_is_what_came_less_what_went(spark: SparkSession) -> None:
    happened = ledger(
        spark,
        event("a", "opened", at_ms=1),
        event("a", "deposited", 700, at_ms=2),
        event("b", "opened", at_ms=3),
        event("a", "withdrawn", 200, at_ms=4),
    )
    assert sorted(steps.balances_v1(happened).collect()) == [
        Row(account="a", balance_cents=500, events=3, last_offset=3),
        Row(account="b", balance_cents=0, events=1, last_offset=2),
    ]
    [first, _] = sorted(steps.balances_v2(happened).collect())
    assert (first.deposited_cents, first.withdrawn_cents, first.last_at_ms) == (700, 200, 4)


OPENED = json.dumps(event("a", "opened")).encode()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"account": "a", ', "the value is not valid JSON"),
        (OPENED + b"x", "the value is not valid JSON"),
        (OPENED.replace(b'"e"', b'"\xff"'), "the value is not UTF-8"),
        (OPENED.replace(b": 0", b': "0"', 1), "the value does not fit the schema"),
        (
            OPENED.replace(b"opened", b"closed"),
            "field kind is none of opened, deposited, withdrawn",
        ),
        (b'{"kind": "opened", "account": "a"}', "field amount_cents is missing"),
        (b"{}", "field kind is missing"),
        (None, "the value is null"),
    ],
)
def test_a_view_is_not_built_around_what_is_no_event(
    spark: SparkSession, value: bytes | None, reason: str
) -> None:
    broken = spark.createDataFrame([(b"k", value, 3, 17)], RECORDS)
    told = f"no event of the ledger: partition 3, offset 17: {reason}"
    with pytest.raises(PySparkException, match=told):
        steps.balances_v1(steps.ledger_events(broken)).collect()


def test_of_each_account_the_row_written_last_counts(spark: SparkSession) -> None:
    rows = [
        (b"a", b'{"account": "a", "events": 1}', 0, 0),
        (b"b", b'{"account": "b", "events": 1}', 1, 0),
        (b"a", b'{"account": "a", "events": 2}', 0, 1),
        (b"c", b'{"account": "c", "events": 1}', 0, 2),
        (b"c", None, 0, 3),
    ]
    view = steps.latest(spark.createDataFrame(rows, RECORDS), "account string, events bigint")
    assert sorted(view.collect()) == [Row(account="a", events=2), Row(account="b", events=1)]


def test_no_account_of_the_generator_is_overdrawn() -> None:
    happened = list(islice(events(5, accounts=20), 2_000))
    assert happened == list(islice(events(5, accounts=20), 2_000))
    for count in range(0, 2_000, 100):
        assert all(account.balance_cents >= 0 for account in folded(happened[:count]).values())


@pytest.mark.parametrize("left", [".0.5f2e.tmp", None])
def test_a_query_without_a_commit_has_reached_nothing(
    spark: SparkSession, tmp_path: Path, left: str | None
) -> None:
    """Spark writes a commit under another name first; whoever is killed then leaves that."""
    (tmp_path / "commits").mkdir()
    if left is not None:
        (tmp_path / "commits" / left).write_text("v1\n{}")
    assert reached(spark, str(tmp_path)) == {}

"""Events of 1970 are dead letters, as those of 2099; where no watermark is, both count as any."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.spark import dead_letter
from penstock.spark.pipelines.cdc import steps as cdc
from penstock.spark.pipelines.clickstream import fraud
from penstock.spark.pipelines.clickstream import steps as clickstream
from penstock.spark.pipelines.clickstream.rules import CARD_BURST
from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce import steps as commerce
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS
from penstock.spark.pipelines.generated import START_MS, Event, json_event
from penstock.spark.pipelines.replay import steps as replay
from penstock.spark.pipelines.wordcount import steps as wordcount
from rig.record_stream import streamed
from rig.timed_events import IN_2099_MS, letters, minute, payment, purchase

IN_1970_MS = 86_400_000


def payment_of(number: int, at_ms: int, *, ordered_ms: int | None = None) -> Event:
    fields = payment(number, at_ms, ordered_ms=ordered_ms)
    record_ms = minute(number % 10)
    return json_event(names.PAYMENTS, key=str(number), fields=fields, timestamp_ms=record_ms)


def purchase_of(number: int, at_ms: int, record_ms: int) -> Event:
    return json_event("t", key="k", fields=purchase(number, at_ms), timestamp_ms=record_ms)


def test_payments_of_1970_are_dead_letters_and_all_others_are_counted(
    spark: SparkSession, folder: Path
) -> None:
    wrong = payment_of(90, IN_1970_MS, ordered_ms=minute(0))
    of_an_old_order = payment_of(91, minute(1), ordered_ms=IN_1970_MS)
    oldest_ms = minute(5) - DEFAULT_BOUNDS.behind_ms_max
    good = [
        *(payment_of(number, minute(number)) for number in range(5)),
        payment_of(5, minute(5), ordered_ms=oldest_ms),
    ]
    # In the second batch: the watermark is there already.
    batches = [good[:2], [wrong, of_an_old_order, *good[2:4]], good[4:]]

    def checked(records: DataFrame) -> DataFrame:
        return commerce.checked(records, names.ORDERS, names.PAYMENTS)

    def rows(name: str, step: Any, mode: str) -> list[Row]:
        return streamed(
            spark, folder / name, batches, lambda one: step(checked(one)), output_mode=mode
        )

    revenue = [json.loads(row.value) for row in rows("revenue", commerce.revenue, "update")]
    assert sorted(row["minute"] for row in revenue) == [
        f"2026-01-01T00:{number:02}Z" for number in range(6)
    ]
    views = [json.loads(row.value) for row in rows("order_view", commerce.order_view, "update")]
    assert sorted(view["order_id"] for view in views) == [str(number) for number in range(6)]
    routed = rows("routed", commerce.routed, "append")
    assert letters(routed, names.DEAD_LETTERS) == [
        (wrong.value, DEFAULT_BOUNDS.too_early("at")),
        (of_an_old_order.value, DEFAULT_BOUNDS.too_early("ordered_at")),
    ]
    assert len([row for row in routed if row.topic == names.LEDGER]) == len(good)


def test_clicks_of_1970_are_dead_letters_and_all_others_are_counted(
    spark: SparkSession, folder: Path
) -> None:
    visits = [
        purchase_of(number, at_ms, at_ms)
        for number, at_ms in enumerate(
            minute(hour * 60) + shot * 1_000 for hour in (0, 1) for shot in range(5)
        )
    ]
    wrong = purchase_of(90, IN_1970_MS, minute(60))
    last = purchase_of(10, minute(180), minute(180))
    batches = [visits[:5], [wrong], visits[5:], [last]]

    def rows(name: str, step: Any) -> list[Row]:
        return streamed(
            spark,
            folder / name,
            batches,
            lambda records: step(clickstream.parsed(records)),
            output_mode="append",
        )

    sessions = rows("sessions", lambda events: clickstream.sessions(clickstream.sound(events)))
    assert sorted((row.started_at_ms, row.events) for row in sessions) == [
        (minute(0), 5),
        (minute(60), 5),
    ]
    alerts = rows(
        "alerts", lambda events: fraud.alerts(clickstream.signals(clickstream.sound(events)))
    )
    assert sorted((row.rule, row.first_at_ms) for row in alerts) == [
        (CARD_BURST.name, minute(0)),
        (CARD_BURST.name, minute(60)),
    ]
    bad = rows("letters", lambda events: dead_letter.letters(events, dead_letters="dead"))
    assert letters(bad, "dead") == [(wrong.value, DEFAULT_BOUNDS.too_early("at_ms"))]


def word(text: str, timestamp_ms: int) -> Event:
    return Event("t", b"1", text.encode(), timestamp_ms)


def deposit(cents: int, at_ms: int) -> Event:
    fields = {"kind": "deposited", "account": "1", "amount_cents": cents, "at_ms": at_ms}
    return json_event("t", key="1", fields=fields, timestamp_ms=at_ms)


def change(price_cents: int, timestamp_ms: int) -> Event:
    return json_event("t", key="1", fields={"price_cents": price_cents}, timestamp_ms=timestamp_ms)


@pytest.mark.parametrize(
    ("event", "step", "counted"),
    [
        (
            lambda number, at_ms: word("cheese", at_ms),
            lambda records: wordcount.counts(wordcount.words(records)),
            lambda row: int(row.value),
        ),
        (
            deposit,
            lambda records: replay.balances_v2(replay.ledger_events(records)),
            lambda row: row.events,
        ),
        (
            change,
            lambda records: cdc.features(cdc.changes(records)),
            lambda row: row.change_count,
        ),
    ],
    ids=["wordcount", "replay", "cdc"],
)
def test_without_a_watermark_events_of_any_time_count(
    spark: SparkSession, folder: Path, event: Any, step: Any, counted: Any
) -> None:
    times = (IN_2099_MS, IN_1970_MS, START_MS, minute(1))
    batches = [[event(number, at_ms)] for number, at_ms in enumerate(times)]
    rows = streamed(spark, folder / "counted", batches, step, output_mode="update")
    assert [counted(row) for row in rows] == [1, 2, 3, 4]

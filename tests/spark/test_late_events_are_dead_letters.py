"""An event that is too late for a window is a dead letter; all others are counted in it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.spark import dead_letter
from penstock.spark.dead_letter_headers import ATTEMPT, COUNTED, REASON, REPLAYED_AT
from penstock.spark.pipelines.clickstream import fraud, rules
from penstock.spark.pipelines.clickstream import steps as clickstream
from penstock.spark.pipelines.clickstream.rules import CARD_BURST
from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce import steps as commerce
from penstock.spark.pipelines.event_time import COUNTED as COUNTED_BEFORE
from penstock.spark.pipelines.event_time_bounds import (
    DEFAULT_BOUNDS,
    DISORDER_MS_MAX,
    EventTimeBounds,
    Lateness,
)
from penstock.spark.pipelines.generated import Event, json_event
from rig.record_stream import RECORDS, streamed
from rig.timed_events import MINUTE_MS, letters, minute, payment, purchase

HOUR_MS = 60 * MINUTE_MS
AHEAD_MS = DEFAULT_BOUNDS.ahead_ms_max


def payment_of(number: int, at_ms: int, record_ms: int) -> Event:
    fields = payment(number, at_ms)
    return json_event(names.PAYMENTS, key=str(number), fields=fields, timestamp_ms=record_ms)


def purchase_of(number: int, at_ms: int, record_ms: int) -> Event:
    fields = purchase(number, at_ms)
    return json_event("t", key="k", fields=fields, timestamp_ms=record_ms)


def about_the_bounds(made: Any, lateness: Lateness) -> tuple[list[list[Event]], Event]:
    """Batches in which the watermark is as far ahead as it can be, and records are as far out of
    order as they may; and the one event of them that is too late.
    """
    first_ms = minute(60)
    then_ms = first_ms - DISORDER_MS_MAX
    last_good = made(2, then_ms - lateness.late_ms_max, then_ms)
    too_late = made(3, then_ms - lateness.late_ms_max - 1, then_ms)
    leading = [made(0, first_ms + AHEAD_MS, first_ms), made(1, first_ms, first_ms)]
    # Spark drops late rows from the second batch on after the one that moved the watermark.
    batches = [leading, [made(4, first_ms, first_ms)], [last_good, too_late]]
    return batches, too_late


def headers_of(row: Row) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in row.headers}


def test_a_payment_of_a_till_that_was_offline_is_in_the_ledger_and_a_dead_letter(
    spark: SparkSession, folder: Path
) -> None:
    batches, too_late = about_the_bounds(payment_of, commerce.PAYMENT_LATENESS)

    def rows(name: str, step: Any, mode: str) -> list[Row]:
        def steps(records: DataFrame) -> DataFrame:
            found: DataFrame = step(commerce.checked(records, names.ORDERS, names.PAYMENTS))
            return found

        return streamed(spark, folder / name, batches, steps, output_mode=mode)

    revenue = [json.loads(row.value) for row in rows("revenue", commerce.revenue, "update")]
    latest = {row["minute"]: row["payments"] for row in revenue}
    assert latest == {
        "2026-01-01T01:05Z": 1,
        "2026-01-01T01:00Z": 2,
        "2026-01-01T00:40Z": 1,
    }
    routed = rows("routed", commerce.routed, "append")
    reason = commerce.PAYMENT_LATENESS.reason("at")
    assert letters(routed, names.DEAD_LETTERS) == [(too_late.value, reason)]
    assert [row.topic for row in routed].count(names.LEDGER) == 5
    [letter] = [row for row in routed if row.topic == names.DEAD_LETTERS]
    assert COUNTED in headers_of(letter)


def test_a_click_that_is_too_late_is_in_no_session_and_a_dead_letter(
    spark: SparkSession, folder: Path
) -> None:
    batches, too_late = about_the_bounds(purchase_of, rules.LATENESS)
    on_time_ms = minute(55) - rules.LATENESS.late_ms_max
    batches[-1] += [
        purchase_of(10 + number, on_time_ms + number, minute(55)) for number in range(1, 5)
    ]
    # One that ends the session.
    batches += [
        [purchase_of(5, minute(180), minute(180))],
        [purchase_of(6, minute(180), minute(180))],
    ]

    def rows(name: str, step: Any) -> list[Row]:
        return streamed(
            spark,
            folder / name,
            batches,
            lambda records: step(clickstream.parsed(records)),
            output_mode="append",
        )

    [session] = rows("sessions", lambda events: clickstream.sessions(clickstream.sound(events)))
    assert (session.started_at_ms, session.events) == (on_time_ms, 8)
    [alert] = rows(
        "alerts", lambda events: fraud.alerts(clickstream.signals(clickstream.sound(events)))
    )
    assert (alert.rule, alert.first_at_ms, alert.events) == (CARD_BURST.name, on_time_ms, 5)

    def refused(events: DataFrame) -> DataFrame:
        counted = F.col(clickstream.COUNTED)
        bad = clickstream.refused(events)
        return dead_letter.letters(bad, dead_letters="dead", counted=counted)

    bad = rows("letters", refused)
    assert letters(bad, "dead") == [(too_late.value, rules.LATENESS.reason("at_ms"))]
    assert COUNTED in headers_of(bad[0])


def record_of(spark: SparkSession, event: Event, headers: list[tuple[str, bytes]]) -> DataFrame:
    at = datetime.fromtimestamp(event.timestamp_ms / 1000, UTC)
    row = (event.key, event.value, event.topic, 0, 0, at, headers)
    return spark.createDataFrame([row], RECORDS)


def test_a_replayed_letter_of_a_late_event_counts_nowhere_twice(spark: SparkSession) -> None:
    """Ledger, notices, order view and profiles had it before it became a letter."""
    replayed = [(ATTEMPT, b"1"), (COUNTED, b"true"), (REPLAYED_AT, b"%d" % minute(70))]
    late = record_of(spark, payment_of(1, minute(0), minute(60)), replayed)
    events = commerce.checked(late, names.ORDERS, names.PAYMENTS)
    assert commerce.revenue(events).collect() == []
    assert commerce.order_view(events).collect() == []
    [letter] = commerce.routed(events).collect()
    assert letter.topic == names.DEAD_LETTERS
    headers = headers_of(letter)
    assert (headers[ATTEMPT], headers[REASON].decode()) == (b"2", COUNTED_BEFORE)
    assert COUNTED in headers

    late = record_of(spark, purchase_of(1, minute(0), minute(60)), replayed)
    [click] = clickstream.parsed(late).collect()
    assert (click.reason, click.late) == (COUNTED_BEFORE, None)


@pytest.mark.parametrize(("replayed_ms", "is_late"), [(minute(15), False), (minute(15) + 1, True)])
def test_a_letter_that_was_repaired_is_as_late_as_its_replay(
    spark: SparkSession, replayed_ms: int, is_late: bool
) -> None:
    """Its record has the old timestamp, but the watermark has gone on since."""
    headers = [(ATTEMPT, b"1"), (REPLAYED_AT, b"%d" % replayed_ms)]
    record = record_of(spark, payment_of(1, minute(0), minute(0)), headers)
    events = commerce.checked(record, names.ORDERS, names.PAYMENTS)
    assert len(commerce.revenue(events).collect()) == (0 if is_late else 1)
    topics = [row.topic for row in commerce.routed(events).collect()]
    assert topics == [names.LEDGER, *([names.DEAD_LETTERS] if is_late else [])]


def test_the_watermark_follows_the_bound_of_events_that_are_ahead() -> None:
    wide = EventTimeBounds(ahead_ms_max=2 * HOUR_MS)
    lateness = Lateness(late_ms_max=0, outputs="sums")
    assert lateness.watermark_ms(wide) > 2 * HOUR_MS + DISORDER_MS_MAX

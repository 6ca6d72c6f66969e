"""One event of the year 2099 is a dead letter, and no later event is late because of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.spark import dead_letter
from penstock.spark.dead_letter_headers import Letter, letter_of
from penstock.spark.pipelines.clickstream import fraud
from penstock.spark.pipelines.clickstream import steps as clickstream
from penstock.spark.pipelines.clickstream.rules import CARD_BURST
from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce import steps as commerce
from penstock.spark.pipelines.commerce.generate import moment
from penstock.spark.pipelines.event_time import RECORD_AHEAD
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS, EventTimeBounds, span
from penstock.spark.pipelines.generated import START_MS, Event, json_event
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_topics
from rig.malformed_orders import replay
from rig.pipeline_input import make_topics, produce
from rig.record_stream import streamed
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.timed_events import IN_2099_MS, MINUTE_MS, letters, minute, order, payment, purchase

SECOND_MS, HOUR_MS, DAY_MS = 1_000, 3_600_000, 86_400_000
AHEAD_MS, BEHIND_MS = DEFAULT_BOUNDS.ahead_ms_max, DEFAULT_BOUNDS.behind_ms_max
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def record(topic: str, fields: dict[str, object], timestamp_ms: int) -> Event:
    return json_event(topic, key="k", fields=fields, timestamp_ms=timestamp_ms)


def test_orders_and_payments_after_one_of_2099_are_all_counted(
    spark: SparkSession, folder: Path
) -> None:
    wrong = [
        record(names.PAYMENTS, payment(90, IN_2099_MS, ordered_ms=minute(0)), minute(0)),
        record(names.PAYMENTS, payment(91, minute(0), ordered_ms=IN_2099_MS), minute(0)),
        record(names.ORDERS, order(92, minute(0), ordered_ms=IN_2099_MS), minute(0)),
        record(names.ORDERS, order(93, IN_2099_MS), minute(0)),
    ]
    good = [
        record(topic, fields(number, minute(number)), minute(number))
        for number in range(6)
        for topic, fields in ((names.ORDERS, order), (names.PAYMENTS, payment))
    ]
    batches = [[*good[:4], *wrong], good[4:6], good[6:]]

    def values(name: str, step: Any) -> list[dict[str, Any]]:
        rows = streamed(
            spark,
            folder / name,
            batches,
            lambda records: step(commerce.checked(records, names.ORDERS, names.PAYMENTS)),
            output_mode="update",
        )
        return [json.loads(row.value) for row in rows]

    revenue = values("revenue", commerce.revenue)
    assert sorted(row["minute"] for row in revenue) == [
        f"2026-01-01T00:{number:02}Z" for number in range(6)
    ]
    views = values("order_view", commerce.order_view)
    assert sorted((view["order_id"], view["status"]) for view in views) == [
        (str(number), "paid") for number in range(6)
    ]
    routed = streamed(
        spark,
        folder / "routed",
        [batches[0]],
        lambda records: commerce.routed(commerce.checked(records, names.ORDERS, names.PAYMENTS)),
        output_mode="append",
    )
    reason = "field {} is more than 5 minutes after the record's timestamp"
    assert letters(routed, names.DEAD_LETTERS) == [
        (one.value, reason.format(field))
        for one, field in zip(wrong, ("at", "ordered_at", "ordered_at", "at"), strict=True)
    ]
    assert len([row for row in routed if row.topic == names.LEDGER]) == 2


def test_sessions_and_frauds_after_an_event_of_2099_are_all_found(
    spark: SparkSession, folder: Path
) -> None:
    wrong = record("t", purchase(90, IN_2099_MS), minute(0))
    # Two visits an hour apart, each with a card that pays five times, and one more to end them.
    visits = [
        record("t", purchase(number, at_ms), at_ms)
        for number, at_ms in enumerate(
            [minute(hour * 60) + shot * SECOND_MS for hour in (0, 1) for shot in range(5)]
        )
    ]
    last = record("t", purchase(10, minute(180)), minute(180))
    # Spark drops late rows from the second batch on after the one that moved the watermark.
    batches = [[wrong], visits[:5], visits[5:], [last]]

    def rows(name: str, step: Any) -> list[Row]:
        def sound(records: DataFrame) -> DataFrame:
            found: DataFrame = step(clickstream.sound(clickstream.parsed(records)))
            return found

        return streamed(spark, folder / name, batches, sound, output_mode="append")

    sessions = rows("sessions", clickstream.sessions)
    assert sorted((row.started_at_ms, row.events) for row in sessions) == [
        (minute(0), 5),
        (minute(60), 5),
    ]
    alerts = rows("alerts", lambda events: fraud.alerts(clickstream.signals(events)))
    assert sorted((row.rule, row.first_at_ms) for row in alerts) == [
        (CARD_BURST.name, minute(0)),
        (CARD_BURST.name, minute(60)),
    ]
    bad = streamed(
        spark,
        folder / "letters",
        batches,
        lambda records: dead_letter.letters(clickstream.parsed(records), dead_letters="dead"),
        output_mode="append",
    )
    reason = "field at_ms is more than 5 minutes after the record's timestamp"
    assert letters(bad, "dead") == [(wrong.value, reason)]


def test_a_replayed_letter_of_2099_comes_back_with_one_attempt_more(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "commerce")
    wrong = record(names.PAYMENTS, payment(90, IN_2099_MS), minute(0))
    good = record(names.PAYMENTS, payment(1, minute(1)), minute(1))
    produce(node.bootstrap, [wrong, good])
    place = Place(bootstrap=node.bootstrap, folder=str(folder), once=True)

    def route() -> None:
        rows = read_topics(spark, place, names.ORDERS, names.PAYMENTS, includeHeaders="true")
        routed = commerce.routed(commerce.checked(rows, names.ORDERS, names.PAYMENTS))
        write_topics(routed, place, query="commerce.route").awaitTermination()

    route()
    assert replay(node.bootstrap, names.DEAD_LETTERS) == 1
    route()
    told = [
        letter_of(one.headers)
        for one in committed_records(node.bootstrap, names.DEAD_LETTERS)
        if one.value == wrong.value
    ]
    reason = DEFAULT_BOUNDS.too_late("at")
    assert [
        (one.attempt, one.reason, one.timestamp_ms) for one in told if isinstance(one, Letter)
    ] == [(1, reason, minute(0)), (2, reason, minute(0))]
    ledger = committed_records(node.bootstrap, names.LEDGER)
    assert [one.value for one in ledger] == [good.value]


def judged(
    spark: SparkSession, folder: Path, events: Sequence[Event], **options: EventTimeBounds
) -> list[str | None]:
    """The reason of each event of the clickstream, in order."""
    rows = streamed(
        spark,
        folder / "judged",
        [events],
        lambda records: clickstream.parsed(records, **options).select("offset", "reason", "at"),
        output_mode="append",
    )
    assert all((row.reason is None) == (row.at is not None) for row in rows)
    return [row.reason for row in sorted(rows, key=lambda row: row.offset)]


TOO_LATE = DEFAULT_BOUNDS.too_late("at_ms")
TOO_EARLY = DEFAULT_BOUNDS.too_early("at_ms")


def test_events_at_the_bounds_are_good_and_beyond_them_are_not(
    spark: SparkSession, folder: Path
) -> None:
    cases = [
        (START_MS + AHEAD_MS, None),
        (START_MS + AHEAD_MS + 1, TOO_LATE),
        (START_MS - BEHIND_MS, None),
        (START_MS - BEHIND_MS - 1, TOO_EARLY),
        # Numbers that Spark has no timestamp for do not end the query.
        (INT64_MAX, TOO_LATE),
        (INT64_MIN, TOO_EARLY),
    ]
    events = [record("t", purchase(one, at_ms), START_MS) for one, (at_ms, _) in enumerate(cases)]
    assert judged(spark, folder, events) == [reason for _, reason in cases]


def test_an_old_event_with_an_old_timestamp_is_good_and_a_record_of_the_future_is_not(
    spark: SparkSession, folder: Path
) -> None:
    """Both agree when a producer's clock is wrong, and when a topic is read again years later."""
    in_2001_ms = 1_000_000_000_000
    events = [
        record("t", purchase(1, in_2001_ms), in_2001_ms),
        record("t", purchase(2, IN_2099_MS), IN_2099_MS),
    ]
    assert judged(spark, folder, events) == [None, RECORD_AHEAD]


def test_bounds_are_the_pipelines_options(spark: SparkSession, folder: Path) -> None:
    bounds = EventTimeBounds(ahead_ms_max=2 * HOUR_MS, behind_ms_max=0)
    events = [
        record("t", purchase(1, START_MS + 2 * HOUR_MS), START_MS),
        record("t", purchase(2, START_MS + 3 * HOUR_MS), START_MS),
        record("t", purchase(3, START_MS - 1), START_MS),
    ]
    assert judged(spark, folder, events, event_time=bounds) == [
        None,
        "field at_ms is more than 2 hours after the record's timestamp",
        "field at_ms is more than 0 seconds before the record's timestamp",
    ]


def test_an_order_may_be_old_and_stock_is_counted_by_versions(spark: SparkSession) -> None:
    stock = {
        "event_id": "i",
        "sku": "hat",
        "event": "updated",
        "version": 1,
        "quantity": 3,
        "order_id": None,
        "at": moment(IN_2099_MS),
    }
    old = order(1, START_MS, ordered_ms=START_MS - DEFAULT_BOUNDS.behind_ms_max)
    rows = [(names.INVENTORY, json.dumps(stock)), (names.ORDERS, json.dumps(old))]
    frame = spark.createDataFrame(rows, "topic string, value string").withColumn(
        "timestamp", F.timestamp_millis(F.lit(START_MS))
    )
    assert [row.reason for row in commerce.checked(frame).collect()] == [None, None]


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 seconds"),
        (1, "1 millisecond"),
        (1_500, "1500 milliseconds"),
        (90 * SECOND_MS, "90 seconds"),
        (5 * MINUTE_MS, "5 minutes"),
        (HOUR_MS, "1 hour"),
        (36 * HOUR_MS, "36 hours"),
        (30 * DAY_MS, "30 days"),
    ],
)
def test_a_span_is_told_in_its_largest_whole_unit(duration_ms: int, text: str) -> None:
    assert span(duration_ms) == text

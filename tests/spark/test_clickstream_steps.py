"""Each step of the clickstream on frames of a few rows."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from penstock.spark.pipelines.clickstream import fraud, rules, steps

RECORDS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
AT_MS = 1_767_225_600_000
MINUTE_MS = 60_000


def event(at_ms: int = 0, /, **fields: object) -> dict[str, object]:
    plain = {"user_id": "u1", "kind": "page_view", "device": "phone", "country": "DE"}
    moment = {"event_id": f"e{at_ms}", "at_ms": AT_MS + at_ms}
    return {**moment, **plain, **fields}


def records(
    spark: SparkSession, values: Sequence[Mapping[str, object] | bytes | None]
) -> DataFrame:
    rows = [
        (
            b"k",
            json.dumps(value).encode() if isinstance(value, Mapping) else value,
            "t",
            0,
            n,
            timestamp_of(value),
        )
        for n, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RECORDS)


def timestamp_of(value: Mapping[str, object] | bytes | None) -> datetime:
    """Of the record: that of its event, as far as there is one."""
    at_ms = value.get("at_ms") if isinstance(value, Mapping) else None
    return datetime.fromtimestamp((at_ms if isinstance(at_ms, int) else AT_MS) / 1000, UTC)


def sound(spark: SparkSession, *values: Mapping[str, object]) -> DataFrame:
    return steps.sound(steps.parsed(records(spark, values)))


def test_what_is_no_event_says_why_and_stays_whole(spark: SparkSession) -> None:
    values: list[dict[str, object] | bytes | None] = [
        event(),
        b'{"event_id": "e1", "us',
        b'"text"',
        None,
        event(user_id=None),
        event(kind="hover"),
        event(at_ms="soon"),
        event(kind="login"),
        event(kind="purchase", card="c1"),
        json.dumps(event()).encode() + b"{}",
    ]
    parsed = steps.parsed(records(spark, values))
    assert {row.offset: row.reason for row in parsed.collect()} == {
        0: None,
        1: "the value is not valid JSON",
        2: "the value does not fit the schema",
        3: "the value is null",
        4: "field user_id is missing",
        5: "kind is unknown",
        6: "the value does not fit the schema",
        7: "a login without ok",
        8: "a purchase without card or amount",
        9: "the value is not valid JSON",
    }
    assert [row.offset for row in steps.sound(parsed).collect()] == [0]
    bad = parsed.where("offset = 1").collect()
    assert [bytes(row.value) for row in bad] == [values[1]]


def test_more_than_half_an_hour_of_nothing_ends_a_session(spark: SparkSession) -> None:
    events = sound(
        spark,
        event(0, page="/toys/1"),
        event(29 * MINUTE_MS, kind="purchase", card="c1", amount_cents=500, page="/toys/2"),
        event(58 * MINUTE_MS, kind="login", ok=True),
        event(88 * MINUTE_MS + 1, page="/books/1"),
        event(5 * MINUTE_MS, user_id="u2", page="/music/1"),
    )
    found = sorted(steps.sessions(events).collect())
    assert [row.asDict() for row in found] == [
        session("u1", 0, 58 * MINUTE_MS, events=3, purchases=1, revenue_cents=500, exit="/toys/2"),
        session("u1", 88 * MINUTE_MS + 1, 88 * MINUTE_MS + 1, entry="/books/1", exit="/books/1"),
        session("u2", 5 * MINUTE_MS, 5 * MINUTE_MS, entry="/music/1", exit="/music/1"),
    ]


def session(
    user: str,
    first_ms: int,
    last_ms: int,
    *,
    entry: str = "/toys/1",
    exit: str,
    events: int = 1,
    purchases: int = 0,
    revenue_cents: int = 0,
) -> dict[str, object]:
    return {
        "user_id": user,
        "started_at_ms": AT_MS + first_ms,
        "ended_at_ms": AT_MS + last_ms,
        "events": events,
        "pages": 1,
        "purchases": purchases,
        "revenue_cents": revenue_cents,
        "entry_page": entry,
        "exit_page": exit,
    }


def test_a_profile_does_not_depend_on_the_order_of_events(spark: SparkSession) -> None:
    events = [
        event(1, category="toys", page="/toys/1"),
        event(2, category="toys", page="/toys/2"),
        event(3, category="books", page="/books/1", device="tablet"),
        event(4, kind="purchase", card="c1", amount_cents=700),
    ]
    [forwards] = steps.profiles(sound(spark, *events)).collect()
    [backwards] = steps.profiles(sound(spark, *reversed(events))).collect()
    assert forwards == backwards
    assert forwards == Row(
        user_id="u1",
        first_seen_at_ms=AT_MS + 1,
        last_seen_at_ms=AT_MS + 4,
        events=4,
        purchases=1,
        spent_cents=700,
        favourite_category="toys",
        favourite_device="phone",
        last_page="/books/1",
    )


def test_signals_are_failed_logins_and_purchases(spark: SparkSession) -> None:
    events = sound(
        spark,
        event(1),
        event(2, kind="login", ok=True),
        event(3, kind="login", ok=False),
        event(4, kind="purchase", card="c9", amount_cents=1, country="US"),
    )
    found = {(row.rule, row.subject, row.detail) for row in steps.signals(events).collect()}
    assert found == {
        (rules.FAILED_LOGINS.name, "u1", "e3"),
        (rules.TWO_COUNTRIES.name, "u1", "US"),
        (rules.CARD_BURST.name, "c9", "e4"),
    }


def test_a_memory_comes_back_as_it_was_kept(spark: SparkSession) -> None:
    moments = [rules.Moment(AT_MS + n, f"e{n}", f"e{n}") for n in range(6)]
    memory, alerts = rules.notice(rules.NOTHING, moments, rules.FAILED_LOGINS)
    assert len(alerts) == 1
    assert fraud.memory_of(fraud.text_of(memory)) == memory


def test_records_are_json_under_their_key(spark: SparkSession) -> None:
    [record] = steps.as_records(steps.profiles(sound(spark, event())), key="user_id").collect()
    value: dict[str, Any] = json.loads(bytes(record.value))
    assert bytes(record.key) == b"u1"
    assert (value["user_id"], value["events"]) == ("u1", 1)


def test_the_audit_log_has_every_record_as_it_came(spark: SparkSession) -> None:
    values: list[dict[str, object] | bytes] = [event(), b"\xff broken"]
    rows = steps.audit_rows(steps.parsed(records(spark, values))).collect()
    assert [(row.offset, row.event_id) for row in rows] == [(0, "e0"), (1, None)]
    assert bytes(rows[1].value) == values[1]


def test_the_day_of_an_audit_row_is_that_of_utc_wherever_spark_runs(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        [row] = steps.audit_rows(steps.parsed(records(spark, [event()]))).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert row.day == date(2026, 1, 1)

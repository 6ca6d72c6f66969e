"""The steps of the shop, on small frames."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.commerce import names, steps

ORDERED = "2026-01-01T08:00:00.000Z"


def order(event: str, version: int, **more: object) -> dict[str, object]:
    return {
        "event_id": f"o-1-{version}",
        "order_id": "1",
        "customer_id": "ann",
        "event": event,
        "version": version,
        "region": "north",
        "items": [{"sku": "hat", "quantity": 2, "price_cents": 500}],
        "total_cents": 1000,
        "shipping": "standard",
        "ordered_at": ORDERED,
        "at": ORDERED,
    } | more


def payment(event: str, attempt: int = 1, **more: object) -> dict[str, object]:
    version = 1 if event == "initiated" else 2
    return {
        "event_id": f"p-1-{attempt}-{version}",
        "transaction_id": f"1-{attempt}",
        "order_id": "1",
        "customer_id": "ann",
        "event": event,
        "attempt": attempt,
        "version": version,
        "region": "north",
        "amount_cents": 1000,
        "reason": None,
        "ordered_at": ORDERED,
        "at": ORDERED,
    } | more


ZONE = "spark.sql.session.timeZone"
PAID = [
    payment("completed", at="2026-01-01T08:00:01.000Z"),
    payment("completed", at="2026-01-01T08:00:59.999Z"),
    payment("completed", at="2026-01-01T08:01:00.000Z"),
    payment("completed", at="2026-01-01T08:01:00.000Z", region="south"),
    payment("failed", at="2026-01-01T08:01:00.000Z"),
]


def checked(spark: SparkSession, *rows: tuple[str, dict[str, object] | str]) -> DataFrame:
    data = [
        (topic, value if isinstance(value, str) else json.dumps(value), offset)
        for offset, (topic, value) in enumerate(rows)
    ]
    frame = spark.createDataFrame(data, "topic string, value string, offset bigint")
    return steps.checked(
        frame.selectExpr(
            "cast('k' as binary) key",
            "cast(value as binary) value",
            "topic",
            "0 partition",
            "offset",
            "timestamp '2026-01-01T08:00:00Z' timestamp",
            "cast(null as array<struct<key: string, value: binary>>) headers",
        )
    )


def out(frame: DataFrame) -> list[tuple[str, str, Any]]:
    keyed = frame.selectExpr("topic", "string(key) key", "string(value) value")
    return [(row["topic"], row["key"], json.loads(row["value"])) for row in keyed.collect()]


@pytest.mark.parametrize(
    ("topic", "value", "reason"),
    [
        (names.ORDERS, '{"event_id": "o-1', "the value is not valid JSON"),
        (names.ORDERS, order("paid", 1), "field event is none of created, updated, cancelled"),
        (names.PAYMENTS, payment("failed", amount_cents="ten"), "does not fit the schema"),
        (names.INVENTORY, {"event_id": "i"}, "field sku is missing"),
        (names.PAYMENTS, "null", "the value does not fit the schema"),
        (names.ORDERS, json.dumps(order("created", 1)) + "{}", "the value is not valid JSON"),
        # What is right in one topic is wrong in another.
        (names.INVENTORY, order("created", 1), "field sku is missing"),
    ],
)
def test_what_is_no_event_has_a_reason(
    spark: SparkSession, topic: str, value: dict[str, object] | str, reason: str
) -> None:
    [row] = checked(spark, (topic, value)).collect()
    assert reason in row["reason"]
    assert (row["order"], row["payment"], row["stock"]) == (None, None, None)


def test_an_event_of_an_order_goes_to_all_who_wait_for_it(spark: SparkSession) -> None:
    rows = checked(
        spark,
        (names.ORDERS, order("created", 1)),
        (names.ORDERS, order("updated", 2)),
        (names.PAYMENTS, payment("failed")),
    )
    found = out(steps.routed(rows))
    assert [(topic, key, value["event_id"]) for topic, key, value in found] == [
        (names.FULFILMENT, "1", "o-1-1"),
        (names.ANALYTICS, "north", "o-1-1"),
        (names.NOTIFICATIONS, "ann", "o-1-1"),
        (names.FULFILMENT, "1", "o-1-2"),
        (names.ANALYTICS, "north", "o-1-2"),
        (names.LEDGER, "1-1", "p-1-1-2"),
        (names.NOTIFICATIONS, "ann", "p-1-1-2"),
    ]
    assert found[0][2] == order("created", 1)
    assert found[1][2]["items"] == 1


def test_what_is_no_event_becomes_a_dead_letter_as_it_came(spark: SparkSession) -> None:
    rows = checked(spark, (names.INVENTORY, "{"), (names.ORDERS, order("updated", 2)))
    letter, *good = steps.routed(rows).collect()
    assert letter["topic"] == names.DEAD_LETTERS
    assert [row["topic"] for row in good] == [names.FULFILMENT, names.ANALYTICS]
    headers = {name: bytes(value).decode() for name, value in letter["headers"]}
    assert bytes(letter["value"]) == b"{"
    assert headers["penstock.dlq.topic"] == names.INVENTORY
    assert headers["penstock.dlq.reason"] == "the value is not valid JSON"


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([(names.ORDERS, order("created", 1))], "ordered"),
        ([(names.PAYMENTS, payment("initiated"))], "paying"),
        (
            [
                (names.PAYMENTS, payment("completed", 2)),
                (names.PAYMENTS, payment("failed", 1)),
                (names.ORDERS, order("updated", 2)),
                (names.ORDERS, order("created", 1)),
            ],
            "paid",
        ),
        ([(names.PAYMENTS, payment("completed")), (names.ORDERS, order("cancelled", 2))],
         "cancelled"),
    ],
)  # fmt: skip
def test_the_view_of_an_order_is_its_latest_state_in_whatever_order_it_comes(
    spark: SparkSession, rows: Sequence[tuple[str, dict[str, object]]], status: str
) -> None:
    [(topic, key, view)] = out(steps.order_view(checked(spark, *rows)))
    assert (topic, key, view["status"]) == (names.ORDER_VIEW, "1", status)
    assert view["order_events"] + view["payment_events"] == len(rows)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_revenue_is_what_was_paid_in_a_minute_and_region_wherever_it_is_counted(
    spark: SparkSession, zone: str
) -> None:
    before = spark.conf.get(ZONE)
    assert before is not None
    spark.conf.set(ZONE, zone)
    try:
        found = out(steps.revenue(checked(spark, *((names.PAYMENTS, row) for row in PAID))))
    finally:
        spark.conf.set(ZONE, before)
    assert sorted((key, value["revenue_cents"]) for _, key, value in found) == [
        ("2026-01-01T08:00Z/north", 2000),
        ("2026-01-01T08:01Z/north", 1000),
        ("2026-01-01T08:01Z/south", 1000),
    ]


def test_the_table_of_stock_has_the_latest_level(spark: SparkSession) -> None:
    # The last one of a hat is of an event that came late, and so of no higher version.
    levels = [("hat", 4, 6), ("hat", 3, 7), ("hat", 2, 7), ("scarf", -1, 1)]
    values = [
        (json.dumps({"sku": sku, "level": level, "version": version}), offset)
        for offset, (sku, level, version) in enumerate(levels)
    ]
    rows = steps.stock_rows(spark.createDataFrame(values, "value string, offset bigint"))
    assert sorted(map(tuple, rows.collect())) == [("hat", 2, 7), ("scarf", -1, 1)]

"""Good rows and dead letters in one frame: each row once, bad ones as they came."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.spark import dead_letter, schemas

SOURCE = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int, headers array<struct<key: string, value: binary>>"
)
SCHEMA = "id string NOT NULL, cents bigint NOT NULL"
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
Headers = Sequence[tuple[str, bytes | None]] | None


def source(spark: SparkSession, *values: bytes | None, headers: Headers = None) -> DataFrame:
    rows = [
        (b"k%d" % number, value, "orders", 3, 40 + number, AT, 0, headers)
        for number, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, SOURCE).coalesce(1)


def routed(rows: DataFrame) -> list[Row]:
    good = {"key": F.col("parsed.id"), "value": F.to_json("parsed")}
    return dead_letter.route(rows, good=good, topic="paid", dead_letters="orders.dead").collect()


def headers_of(row: Row) -> list[tuple[str, bytes | None]]:
    return [(one.key, None if one.value is None else bytes(one.value)) for one in row.headers]


def ours(reason: str, *, offset: int = 40, attempt: int = 1) -> list[tuple[str, bytes | None]]:
    return [
        ("penstock.dlq.topic", b"orders"),
        ("penstock.dlq.partition", b"3"),
        ("penstock.dlq.offset", b"%d" % offset),
        ("penstock.dlq.timestamp", b"%d" % (AT.timestamp() * 1000)),
        ("penstock.dlq.reason", reason.encode()),
        ("penstock.dlq.attempt", b"%d" % attempt),
    ]


def test_good_rows_go_on_and_bad_ones_become_letters(spark: SparkSession) -> None:
    rows = source(spark, b'{"id":"a","cents":5}', b'{"id":"b"}', headers=[("trace", b"7")])
    good, bad = routed(schemas.parse_json(rows, SCHEMA))
    assert (good.topic, bytes(good.key), bytes(good.value)) == (
        "paid",
        b"a",
        b'{"id":"a","cents":5}',
    )
    assert (good.headers, good.partition, good.timestamp) == (None, None, None)
    assert (bad.topic, bad.partition, bytes(bad.key), bytes(bad.value)) == (
        "orders.dead",
        None,
        b"k1",
        b'{"id":"b"}',
    )
    assert bad.timestamp is None, "retention counts from the writing of a letter"
    assert headers_of(bad) == [("trace", b"7"), *ours("field cents is missing", offset=41)]


def test_a_letter_without_key_value_or_headers_is_as_bare_as_it_came(spark: SparkSession) -> None:
    rows = source(spark, None).withColumn("key", F.lit(None).cast("binary"))
    [bad] = routed(schemas.parse_json(rows, SCHEMA))
    assert (bad.key, bad.value) == (None, None)
    assert headers_of(bad) == ours("the value is null")


@pytest.mark.parametrize(("told", "attempt"), [(b"1", 2), (b"41", 42), (b"many", 1), (None, 1)])
def test_a_replayed_letter_that_fails_again_is_one_attempt_further(
    spark: SparkSession, told: bytes | None, attempt: int
) -> None:
    headers = [("trace", b"7"), ("penstock.dlq.attempt", told), ("penstock.dlq.reason", b"old")]
    [bad] = routed(schemas.parse_json(source(spark, b"{", headers=headers), SCHEMA))
    assert headers_of(bad) == [
        ("trace", b"7"),
        *ours("the value is not valid JSON", attempt=attempt),
    ]


def test_a_function_that_raises_makes_a_letter_and_says_why(spark: SparkSession) -> None:
    def share(order: dict[str, int], people: int) -> int:
        return order["cents"] // people

    rows = source(spark, b'{"id":"a","cents":6}', b'{"id":"b","cents":7}', b"{")
    parsed = schemas.parse_json(rows, SCHEMA)
    people = F.when(F.col("parsed.id") == "a", 2).otherwise(0)
    shared = dead_letter.attempt(parsed, share, "parsed", people, returns="bigint", into="share")
    found = shared.orderBy("offset").select("share", "reason").collect()
    assert found == [
        Row(share=3, reason=None),
        Row(
            share=None, reason="share failed: ZeroDivisionError: integer division or modulo by zero"
        ),
        Row(share=None, reason="the value is not valid JSON"),
    ]


def test_text_that_is_not_utf8_is_the_fault_of_its_row_alone(spark: SparkSession) -> None:
    def length(text: str) -> int:
        return len(text)

    rows = source(spark, b"ab", b"\xffab", None)
    text = F.coalesce(F.col("value").cast("string"), F.lit(""))
    measured = dead_letter.attempt(rows, length, text, returns="int", into="length")
    assert measured.orderBy("offset").select("length", "reason").collect() == [
        Row(length=2, reason=None),
        Row(length=None, reason="argument 1 of length is not UTF-8"),
        Row(length=0, reason=None),
    ]


def test_a_result_of_the_wrong_type_is_the_fault_of_its_row_alone(spark: SparkSession) -> None:
    def price(cents: int) -> object:
        return "much" if cents > 5 else {"price": Decimal(cents), "at": AT, "words": ["x", None]}

    rows = source(spark, b'{"id":"a","cents":5}', b'{"id":"b","cents":7}')
    parsed = schemas.parse_json(rows, SCHEMA)
    kind = "struct<price: decimal(9,2), at: timestamp, words: array<string>>"
    priced = dead_letter.attempt(parsed, price, "parsed.cents", returns=kind, into="priced")
    good, bad = priced.orderBy("offset").collect()
    assert (good.priced.price, good.priced.words) == (Decimal("5.00"), ["x", None])
    assert bad.priced is None
    assert bad.reason.startswith("price failed: ")


def test_what_is_rejected_first_keeps_its_reason(spark: SparkSession) -> None:
    rows = source(spark, b'{"id":"a","cents":-5}', b'{"id":"","cents":-7}', b'{"id":"c","cents":1}')
    parsed = schemas.parse_json(rows, SCHEMA)
    named = dead_letter.reject(parsed, F.col("parsed.id") == "", "field id is empty")
    checked = dead_letter.reject(named, F.col("parsed.cents") < 0, "field cents is negative")
    assert [row.reason for row in checked.orderBy("offset").collect()] == [
        "field cents is negative",
        "field id is empty",
        None,
    ]


def test_letters_alone_go_with_good_rows_of_another_shape(spark: SparkSession) -> None:
    rows = source(spark, b'{"id":"a","cents":2}', b"{")
    parsed = schemas.parse_json(rows, SCHEMA)
    each_cent = F.explode(F.array(F.lit("one").cast("binary"), F.lit("two").cast("binary")))
    cents = parsed.where("reason IS NULL").select(
        each_cent.alias("value"), F.lit("cents").alias("topic")
    )
    both = cents.unionByName(
        dead_letter.letters(parsed, dead_letters="orders.dead"), allowMissingColumns=True
    )
    found = [(row.topic, bytes(row.value)) for row in both.collect()]
    assert found == [("cents", b"one"), ("cents", b"two"), ("orders.dead", b"{")]


def test_what_cannot_be_routed_is_refused_in_one_line(spark: SparkSession) -> None:
    parsed = schemas.parse_json(source(spark), SCHEMA)
    value = {"value": F.col("value")}
    for rows, good, topic, why in (
        (parsed.drop("headers"), value, "t", "column headers: read .* includeHeaders=true"),
        (parsed.drop("reason"), value, "t", "need the column reason"),
        (parsed, {"key": F.col("key")}, "t", "good rows need a value"),
        (parsed, value, None, "good rows need a topic"),
        (parsed, {**value, "topic": F.col("topic")}, "t", "and not both"),
        (parsed, {**value, "offset": F.col("offset")}, "t", "no column offset"),
    ):
        with pytest.raises(dead_letter.BadRoute, match=why):
            dead_letter.route(rows, good=good, topic=topic, dead_letters="dead")

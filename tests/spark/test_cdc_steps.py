"""Changes of products to what each reader wants, on small frames."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.cdc import steps

RECORDS = (
    "key binary, value binary, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>, partition int, offset bigint"
)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def lamp(**fields: object) -> dict[str, object]:
    row = {"id": 1, "name": "oak lamp", "description": "quiet", "category": "lights"}
    return {**row, "price_cents": 2_500, "stock": 3, **fields}


def record(
    position: int, key: int, row: dict[str, object] | None, *, kind: str = "update"
) -> tuple[object, ...]:
    headers = {"cdc.kind": kind, "cdc.position": str(position), "cdc.step": "0"}
    return (
        str(key).encode(),
        None if row is None else json.dumps(row).encode(),
        AT,
        [(name, value.encode()) for name, value in headers.items()],
        key % 2,
        position // 10,
    )


@pytest.fixture(scope="module")
def changed(spark: SparkSession) -> DataFrame:
    """Out of order, as the partitions of a topic may come."""
    found = spark.createDataFrame(
        [
            record(30, 1, lamp(price_cents=1_999, stock=0)),
            record(10, 1, lamp(), kind="insert"),
            record(20, 2, lamp(id=2, name="saw"), kind="insert"),
            record(40, 2, None, kind="delete"),
        ],
        RECORDS,
    )
    return steps.changes(found).cache()


def test_changes_have_types_and_an_order(changed: DataFrame) -> None:
    first = changed.orderBy("position").first()
    assert first is not None
    assert first.asDict() == {
        **lamp(),
        "deleted": False,
        "kind": "insert",
        "position": 10,
        "step": 0,
        "at": first["at"],
        "partition": 1,
        "offset": 1,
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"name": "saw"', "the value is not valid JSON"),
        (b'{"name": "saw"} x', "the value is not valid JSON"),
        (b'{"name": "\xff"}', "the value is not UTF-8"),
        (b'{"price_cents": "12"}', "the value does not fit the schema"),
        (b"[]", "the value does not fit the schema"),
    ],
)
def test_what_is_no_row_is_not_taken_for_a_row_of_nulls(
    spark: SparkSession, value: bytes, reason: str
) -> None:
    told = f"no row of a product: partition 1, offset 1: {reason}"
    with pytest.raises(PySparkException, match=told):
        with_value(spark, value).collect()


@pytest.mark.parametrize("read", [steps.serving, steps.rows, steps.history, steps.features])
def test_what_is_no_row_ends_every_query(
    spark: SparkSession, read: Callable[[DataFrame], DataFrame]
) -> None:
    """Whichever columns it asks for."""
    with pytest.raises(PySparkException, match="no row of a product: partition 1, offset 1"):
        read(with_value(spark, b"no row")).collect()


def with_value(spark: SparkSession, value: bytes) -> DataFrame:
    key, _, *others = record(10, 1, lamp())
    return steps.changes(spark.createDataFrame([(key, value, *others)], RECORDS))


def test_the_last_change_of_each_product_is_its_row(changed: DataFrame) -> None:
    rows = {row["id"]: row for row in steps.rows(changed).collect()}
    assert (rows[1]["price_cents"], rows[1]["stock"], rows[1]["deleted"]) == (1_999, 0, False)
    assert rows[2]["deleted"] is True


def test_index_and_cache_get_every_change_and_tombstones(changed: DataFrame) -> None:
    served = steps.serving(changed).collect()
    by_place: dict[tuple[str, str], list[object]] = {}
    for row in served:
        value = None if row["value"] is None else json.loads(row["value"])
        by_place.setdefault((row["topic"], row["key"]), []).append(value)
    document = {"id": 1, "text": "oak lamp quiet", "category": "lights"}
    assert by_place["cdc.search", "1"] == [
        {**document, "available": False, "price_band": 1},
        {**document, "available": True, "price_band": 2},
    ]
    assert by_place["cdc.cache", "product:1"] == [lamp(price_cents=1_999, stock=0), lamp()]
    assert by_place["cdc.search", "2"][-1] is None
    assert by_place["cdc.cache", "product:2"] == [lamp(id=2, name="saw"), None]


def test_features_tell_what_came_of_a_product(changed: DataFrame) -> None:
    features = {row["id"]: row for row in steps.features(changed).collect()}
    assert features[1].asDict() == {
        "id": 1,
        "change_count": 2,
        "price_cents_min": 1_999,
        "price_cents_max": 2_500,
        "price_cents_mean": 2_250,
        "price_cents_last": 1_999,
        "sold_out_count": 1,
        "changed_at": features[1]["changed_at"],
        "deleted": False,
    }
    assert features[2]["deleted"] is True


def test_features_and_rows_are_as_they_were_at_an_offset(changed: DataFrame) -> None:
    past = steps.as_of(steps.history(changed), {0: 4, 1: 2})
    features = {row["id"]: row for row in steps.features(past).collect()}
    assert (features[1]["change_count"], features[1]["price_cents_last"]) == (1, 2_500)
    assert features[2]["deleted"] is False
    rows = {row["id"]: row for row in steps.rows(past).collect()}
    assert rows[1]["stock"] == 3
    assert rows[2]["name"] == "saw"
    whole = {
        row["id"]: row for row in steps.rows(steps.as_of(steps.history(changed), {1: 99})).collect()
    }
    assert whole[1]["price_cents"] == 1_999
    assert whole[2]["deleted"] is True


def test_history_keeps_every_change(changed: DataFrame) -> None:
    kinds = [
        (row["id"], row["kind"]) for row in steps.history(changed).orderBy("position").collect()
    ]
    assert kinds == [(1, "insert"), (2, "insert"), (1, "update"), (2, "delete")]

"""JSON with a declared schema: what fits is typed, and what does not is told in a sentence."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.spark import schemas

ORDER = """
    id string NOT NULL, amount bigint NOT NULL, at timestamp, price decimal(5,2), paid boolean,
    buyer struct<name: string NOT NULL, age: int>,
    items array<struct<sku: string NOT NULL, n: int>>, tags map<string, int>, `odd name` int
"""
GOOD = {"id": "a", "amount": 1}
OPEN = b'{"id":"a","amount":1'  # a document but for its end
DEEP = 900  # arrays in arrays; Spark reads up to a thousand
# Texts that hold a good document, and are none.
NOT_ONE_DOCUMENT = (
    OPEN + b'},"x":2',
    OPEN + b'},"document":{"id":"z","amount":9}',
    b'{"id":"z","amount":9},"document":' + OPEN + b"}",
    OPEN + b"}}",
    OPEN + b"}} more",
    OPEN + b'}},{"document":{"id":"z","amount":9}',
    OPEN + b"}]",
    OPEN + b"}],[1",
    OPEN + b'}],"x":[1',
    OPEN + b'}}],[{"x":1',
    OPEN + b"},",
    OPEN + b"},5",
    OPEN + b'},{"id":"b","amount":2}',
    OPEN + b'}\n{"id":"b","amount":2}',
    OPEN + b"} null",
    OPEN + b"}\x00",
    OPEN + b"}\x1e",
    OPEN + "}\N{NO-BREAK SPACE}".encode(),
    OPEN + b"}'",
    OPEN + b'}"',
    OPEN + b"} // so it is",
    OPEN + b"} /* so it is */",
    OPEN + b"/* so it is */}",
    OPEN + b"} # so it is",
    b"\x00" + OPEN + b"}",
    b"\xef\xbb\xbf" + OPEN + b"}",  # the mark of byte order
    b"," + OPEN + b"}",
    b"1," + OPEN + b"}",
    b'"x":' + OPEN + b"}",
    OPEN + b",}",
    OPEN + b',"x":}',
    OPEN + b',"x":NaN}',
    OPEN + b',"x":-Infinity}',
    OPEN + b',"x":01}',
    OPEN + b',"x":+1}',
    OPEN + b',"x":.5}',
    OPEN + b",'x':1}",
    OPEN + b",x:1}",
    OPEN + b',"x":"\\x"}',
    OPEN + b',"x":"a\nb"}',
    OPEN + b',"x":"\\"}',
    OPEN + b',"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"}{",
    b"],[",
    b'"',
    b"'",
)
# Odd, but one document each.
ONE_DOCUMENT = (
    b" \r\n\t" + OPEN + b"} \r\n\t",
    OPEN + b',"x":"},\\"x\\":2"}',
    OPEN + b',"x":"}],[{"}',
    OPEN + b',"x":"\\ud800\\u0000"}',
    OPEN + b',"document":5,"_corrupt":"x"}',
    OPEN + b',"":1,"x":1e999999999}',
    OPEN + b',"x":{"y":' + b"[" * DEEP + b"]" * DEEP + b"}}",
    b'{"id":"z","amount":9,' + OPEN[1:] + b"}",
)


def rows_of(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(values)), "number int, value binary").coalesce(1)


def reasons(spark: SparkSession, values: list[bytes | None], schema: str = ORDER) -> list[str]:
    """Of `parse_json`; `BriefJson` accepts the same rows."""
    brief, text = schemas.BriefJson(schema), F.col("value").cast("string")
    parsed = schemas.parse_json(rows_of(spark, values), schema).withColumn("raw", brief.raw(text))
    judged = parsed.withColumn("fault", brief.fault(text, F.col("raw")))
    found = judged.orderBy("number").select("parsed", "reason", "fault").collect()
    assert all((row.parsed is None) != (row.reason is None) for row in found)
    assert [row.fault is None for row in found] == [row.reason is None for row in found]
    return [row.reason for row in found]


def with_fields(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def test_what_fits_is_typed_and_keeps_its_other_columns(spark: SparkSession) -> None:
    value = with_fields(
        at="2026-01-31T12:00:00Z",
        price=1.25,
        paid=True,
        buyer={"name": "Ann"},
        items=[{"sku": "x", "n": 2}],
        unknown=5,
    )
    [row] = schemas.parse_json(rows_of(spark, [value]), ORDER).collect()
    assert (row.number, bytes(row.value), row.reason) == (0, value, None)
    assert (row.parsed.id, row.parsed.amount, row.parsed.price) == ("a", 1, Decimal("1.25"))
    assert row.parsed.at.astimezone(UTC) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert row.parsed.buyer == Row(name="Ann", age=None)
    assert row.parsed["items"] == [Row(sku="x", n=2)]


def test_each_fault_has_its_sentence(spark: SparkSession) -> None:
    faults: dict[bytes | None, str] = {
        None: "the value is null",
        b"": "the value is empty",
        b"  ": "the value is empty",
        b'{"id":"\xff","amount":1}': "the value is not UTF-8",
        b'{"id":"a","amount":1': "the value is not valid JSON",
        b'{"id":"a","amount":1} more': "the value is not valid JSON",
        b'{"id":"a","amount":1}{"id":"b","amount":2}': "the value is not valid JSON",
        b"{'id':'a','amount':1}": "the value is not valid JSON",
        b"5": "the value should be an object, and is a number",
        b"null": "the value should be an object, and is null",
        b'[{"id":"a","amount":1}]': "the value should be an object, and is an array",
        b'{"amount":1}': "field id is missing",
        b'{"id":"a","amount":null}': "field amount is null",
        b'{"id":"a","amount":"1"}': "field amount should be bigint, and is a string",
        b'{"id":"a","amount":1.0}': (
            "field amount should be bigint, and is a number that does not fit"
        ),
        b'{"id":"a","amount":99999999999999999999}': (
            "field amount should be bigint, and is a number that does not fit"
        ),
        with_fields(at="soon"): "field at should be timestamp, and is a string that does not fit",
        with_fields(price=12345.6): (
            "field price should be decimal(5,2), and is a number that does not fit"
        ),
        with_fields(paid="yes"): "field paid should be boolean, and is a string",
        with_fields(buyer=5): "field buyer should be struct<name:string,age:int>, and is a number",
        with_fields(buyer={}): "field buyer.name is missing",
        with_fields(buyer={"name": None}): "field buyer.name is null",
        with_fields(buyer={"name": "Ann", "age": "old"}): (
            "field buyer.age should be int, and is a string"
        ),
        with_fields(items={}): (
            "field items should be array<struct<sku:string,n:int>>, and is an object"
        ),
        with_fields(items=[{"sku": "x", "n": 1}, {"sku": "y", "n": "z"}]): (
            "field items should be array<struct<sku:string,n:int>>,"
            " and is an array that does not fit"
        ),
        with_fields(items=[{"n": 1}]): (
            "field items should be array<struct<sku:string,n:int>>,"
            " and is an array that does not fit"
        ),
        with_fields(tags={"a": "b"}): (
            "field tags should be map<string,int>, and is an object that does not fit"
        ),
        b'{"id":"a","amount":1,"odd name":""}': ("field `odd name` should be int, and is a string"),
    }
    assert reasons(spark, list(faults)) == list(faults.values())


def test_a_brief_reason_names_what_is_missing(spark: SparkSession) -> None:
    faults: dict[bytes | None, str | None] = {
        with_fields(): None,
        None: "the value is null",
        b'{"id":"\xff","amount":1}': "the value is not UTF-8",
        b'{"id":"a","amount":1} more': "the value is not valid JSON",
        b"null": "the value does not fit the schema",
        b'{"id":"a","amount":"1"}': "the value does not fit the schema",
        b'{"amount":1}': "field id is missing",
        with_fields(buyer={}): "field buyer lacks something",
    }
    brief, text = schemas.BriefJson(ORDER), F.col("value").cast("string")
    rows = rows_of(spark, list(faults)).withColumn("raw", brief.raw(text))
    judged = rows.select("number", brief.fault(text, F.col("raw")).alias("fault"))
    assert [row.fault for row in judged.orderBy("number").collect()] == list(faults.values())
    [row] = rows.where("number = 0").select(brief.value(F.col("raw")).alias("value")).collect()
    assert (row.value.id, row.value.amount) == ("a", 1)


def test_a_document_with_anything_around_it_is_none(spark: SparkSession) -> None:
    told = dict(zip(NOT_ONE_DOCUMENT, reasons(spark, list(NOT_ONE_DOCUMENT)), strict=True))
    assert told == dict.fromkeys(NOT_ONE_DOCUMENT, "the value is not valid JSON")


def test_what_only_looks_like_an_end_is_none(spark: SparkSession) -> None:
    rows = rows_of(spark, list(ONE_DOCUMENT))
    parsed = schemas.parse_json(rows, ORDER).select("parsed.id", "parsed.amount", "reason")
    assert parsed.collect() == [Row(id="a", amount=1, reason=None)] * len(ONE_DOCUMENT)


def test_a_number_that_is_none_does_not_become_one(spark: SparkSession) -> None:
    texts = (b"NaN", b"Infinity", b'"NaN"', b'"-INF"')
    told = reasons(spark, [b'{"n":' + text + b"}" for text in texts], "n double")
    quoted = "field n should be double, and is a string"
    assert told == ["the value is not valid JSON"] * 2 + [quoted] * 2


def test_of_two_fields_with_the_same_name_the_last_counts_and_both_must_fit(
    spark: SparkSession,
) -> None:
    twice = [b'{"n":1,"n":2}', b'{"n":"x","n":2}', b'{"n":1,"n":"x"}', b'{"x":1,"x":2,"n":"y"}']
    rows = schemas.parse_json(rows_of(spark, list(twice)), "n int").orderBy("number").collect()
    assert [row.parsed and row.parsed.n for row in rows] == [2, None, None, None]
    assert reasons(spark, list(twice), "n int") == [None] + ["the value is not valid JSON"] * 3


def test_numbers_and_escapes_become_what_spark_makes_of_them(spark: SparkSession) -> None:
    made = {
        b'{"d":1e400}': ("d", math.inf),
        b'{"t":1e400}': ("t", '"Infinity"'),
        b'{"t":1.10}': ("t", "1.1"),
        b'{"p":1.239}': ("p", Decimal("1.24")),
        b'{"t":"a\\ud800"}': ("t", "a?"),
    }
    rows = rows_of(spark, list(made))
    parsed = schemas.parse_json(rows, "d double, t string, p decimal(5,2)").orderBy("number")
    found = [row.parsed for row in parsed.collect()]
    wanted = list(made.values())
    assert [(name, row[name]) for row, (name, _) in zip(found, wanted, strict=True)] == wanted
    unfit = "field n should be bigint, and is a number that does not fit"
    assert reasons(spark, [b'{"n":1.0}', b'{"n":1e2}'], "n bigint") == [unfit] * 2


def test_what_is_too_long_or_too_deep_for_spark_is_refused_in_any_field(
    spark: SparkSession,
) -> None:
    def with_levels(levels: int) -> bytes:
        return b'{"n":1,"x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    def with_digits(digits: int) -> bytes:
        return b'{"n":1,"x":' + b"9" * digits + b"}"

    def with_name(length: int) -> bytes:
        return b'{"n":1,"' + b"x" * length + b'":2}'

    most = [with_levels(999), with_digits(1_000), with_name(50_000)]
    more = [with_levels(1_000), with_digits(1_001), with_name(50_001)]
    assert reasons(spark, [*most, *more], "n int") == (
        [None] * 3 + ["the value is not valid JSON"] * 3
    )


def test_a_string_has_at_most_twenty_million_characters(spark: SparkSession) -> None:
    lengths = spark.createDataFrame([(20_000_000,), (20_000_001,)], "length int").coalesce(1)
    text = F.concat(F.lit('{"x":"'), F.expr("repeat('x', length)"), F.lit('"}'))
    parsed = schemas.parse_json(lengths.withColumn("value", text), "x string")
    found = parsed.select("length", "reason").orderBy("length").collect()
    assert [row.reason for row in found] == [None, "the value is not valid JSON"]


def test_the_first_fault_in_the_order_of_the_schema_is_told(spark: SparkSession) -> None:
    assert reasons(spark, [b'{"paid":5,"amount":"x"}']) == ["field id is missing"]


def test_what_may_be_null_may_be_missing(spark: SparkSession) -> None:
    values: list[bytes | None] = [
        b'{"id":"a","amount":1}',
        with_fields(buyer=None, items=None, tags=None, at=None),
        with_fields(items=[None], buyer={"name": "Ann", "age": None}),
    ]
    assert reasons(spark, values) == [None, None, None]


def test_columns_are_named_as_one_likes(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("x", '{"n":1}')], "value string, body string")
    parsed = schemas.parse_json(rows, "n int", column="body", into="event", reason="why")
    assert parsed.columns == ["value", "body", "event", "why"]
    assert parsed.select("event.n", "why").collect() == [Row(n=1, why=None)]


def test_a_schema_of_types_is_as_good_as_its_text(spark: SparkSession) -> None:
    declared = spark.createDataFrame([], "n int NOT NULL").schema
    parsed = schemas.parse_json(rows_of(spark, [b'{"n":1}', b"{}"]), declared)
    assert [row.reason for row in parsed.orderBy("number").collect()] == [
        None,
        "field n is missing",
    ]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(width=32)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "age", "sku", "n"]), inner, max_size=3)
    ),
    max_leaves=6,
)
documents = st.dictionaries(
    st.sampled_from(["id", "amount", "at", "price", "paid", "buyer", "items", "tags"]), json_values
)
anything = st.binary(max_size=20) | st.one_of(documents, json_values).map(
    lambda value: json.dumps(value).encode()
)
pieces = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"', "'", "\\", " ", "1", "null", '"x"', '"document":', "{}"]
)
around = st.lists(pieces, max_size=6).map(lambda parts: "".join(parts).encode())
around_good = st.tuples(around, around).map(lambda two: two[0] + OPEN + b"}" + two[1])


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(st.none() | anything, min_size=40, max_size=80))
def test_of_any_bytes_a_row_has_a_value_or_a_reason(
    spark: SparkSession, values: list[bytes | None]
) -> None:
    for value, reason in zip(values, reasons(spark, values), strict=True):
        if reason is None:
            assert value is not None
            assert isinstance(strictly(value), dict)
        else:
            assert reason.startswith(("the value ", "field "))


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(around_good, min_size=100, max_size=200))
def test_a_good_document_in_other_text_is_good_where_all_of_it_is_one(
    spark: SparkSession, values: list[bytes]
) -> None:
    for value, reason in zip(values, reasons(spark, list(values)), strict=True):
        assert (reason is None) == is_order(value), value


def is_order(value: bytes) -> bool:
    try:
        found = strictly(value)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("id") == "a"


def strictly(value: bytes) -> object:
    """As Python's own reader takes it, without what it takes beyond the standard."""

    def refuse(constant: str) -> object:
        raise ValueError(constant)

    return json.loads(value.decode(), parse_constant=refuse)

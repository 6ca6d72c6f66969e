"""Routes rows that can't be processed to a dead-letter topic, in the transaction of the good rows.

    rows = spark.readStream.format("penstock").option("includeHeaders", "true") ... .load()
    parsed = schemas.parse_json(rows, "id string NOT NULL, cents bigint NOT NULL")
    priced = dead_letter.attempt(parsed, with_tax, "parsed.cents", returns="bigint", into="gross")
    out = dead_letter.route(
        priced,
        good={"key": F.col("parsed.id"), "value": F.to_json(F.struct("parsed.id", "gross"))},
        topic="orders.priced",
        dead_letters="orders.dead",
    )
    out.writeStream.format("penstock") ... .start()

A row is bad when its column `reason` holds a sentence; whoever finds a fault writes one there
(`schemas.parse_json`, `attempt`, or a condition of your own with `reject`), and the first counts.
`route` gives both kinds in one frame with the columns of the sink, so one write is one transaction:
no row is in both topics, none in neither. A bad row is written as it came, key, value and headers,
with the headers of `penstock.spark.dead_letter_headers`, its old timestamp among them; `penstock
dlq` lists and replays them.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructType

from penstock.model.error import PenstockError
from penstock.spark import dead_letter_headers as letter
from penstock.spark.schemas import REASON

SOURCE_COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
# What the sink takes, and what it is where nobody says.
SINK_TYPES = {
    "key": "binary",
    "value": "binary",
    "headers": HEADERS_TYPE,
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
}
REASON_CHARACTERS_MAX = 500
ZONE = "UTC"  # of timestamps on their way from a function; what they mean does not depend on it

Result = TypeVar("Result")


class BadRoute(PenstockError):
    """The frame can't be routed: a column is missing, or unknown to the sink."""


def route(
    rows: DataFrame,
    *,
    good: Mapping[str, Column | str],
    dead_letters: str,
    topic: str | None = None,
    reason: str = REASON,
    counted: Column | None = None,
) -> DataFrame:
    """One frame for one sink: good rows in the columns of `good`, bad rows as dead letters.

    `good` has the columns of the sink: value, and any of key, headers, topic, partition, timestamp.
    `topic` is the topic of the good rows if there is no such column. `counted` holds for bad rows
    that other queries count: their letters have a header which says so, see `was_counted`.
    """
    _need(rows, (*SOURCE_COLUMNS, reason))
    unknown = sorted(set(good) - set(SINK_TYPES))
    if unknown:
        raise BadRoute(f"the sink has no column {unknown[0]}: it takes {', '.join(SINK_TYPES)}")
    if "value" not in good:
        raise BadRoute("good rows need a value: good={'value': ...}")
    if ("topic" in good) == (topic is not None):
        raise BadRoute("good rows need a topic: as topic=... or as a column of good, and not both")
    is_bad = F.col(reason).isNotNull()
    wanted = {name: _column(one) for name, one in good.items()}
    if topic is not None:
        wanted["topic"] = F.lit(topic)
    posted = _letter_columns(dead_letters, reason, counted)
    return rows.select(
        *(
            F.when(is_bad, posted[name])
            .otherwise(wanted.get(name, F.lit(None)).cast(kind))
            .alias(name)
            for name, kind in SINK_TYPES.items()
        )
    )


def letters(
    rows: DataFrame, *, dead_letters: str, reason: str = REASON, counted: Column | None = None
) -> DataFrame:
    """The bad rows alone, in the columns of the sink; `counted` is that of `route`.

    For good rows that do not become one record each: `good.unionByName(letters(...),
    allowMissingColumns=True)` is still one write, though its source is read twice.
    """
    _need(rows, (*SOURCE_COLUMNS, reason))
    posted = _letter_columns(dead_letters, reason, counted)
    bad = rows.where(F.col(reason).isNotNull())
    return bad.select(*(column.alias(name) for name, column in posted.items()))


def reject(
    rows: DataFrame, condition: Column, why: str | Column, *, reason: str = REASON
) -> DataFrame:
    """Marks rows for which the condition holds as bad; bad rows keep their first reason."""
    sentence = F.lit(why) if isinstance(why, str) else why
    known = F.col(reason) if reason in rows.columns else F.lit(None).cast("string")
    return rows.withColumn(reason, F.coalesce(known, F.when(condition, sentence)))


def attempt(
    rows: DataFrame,
    function: Callable[..., object],
    *arguments: Column | str,
    returns: str | DataType,
    into: str,
    reason: str = REASON,
) -> DataFrame:
    """The frame with a new column `into`: the result of a Python function for each good row.

    If the function raises, or an argument is text that is not UTF-8, the row is bad, and that is
    its reason. The function is not called for bad rows. Batches are passed as Arrow, structs as
    dictionaries.
    """
    kind = _type_of(rows, returns)
    outcome = StructType().add("result", kind).add("fault", StringType())
    known = F.col(reason) if reason in rows.columns else F.lit(None).cast("string")
    given = F.struct(
        known.isNull().alias("is_good"),
        *(_column(one).alias(f"argument_{index}") for index, one in enumerate(arguments)),
    )
    name = getattr(function, "__name__", "the function")
    attempting = _attempting(function, name, to_arrow_type(kind, timezone=ZONE))
    # The stub does not know that a function may return structs.
    attempted = arrow_udf(attempting, outcome)  # type: ignore[call-overload]
    step = rows.withColumn(_ATTEMPTED, attempted(given))
    return (
        step.withColumn(into, F.col(_ATTEMPTED)["result"])
        .withColumn(reason, F.coalesce(known, F.col(_ATTEMPTED)["fault"]))
        .drop(_ATTEMPTED)
    )


_ATTEMPTED = "_penstock_attempted"


def _attempting(
    function: Callable[..., object], name: str, kind: pa.DataType
) -> Callable[[pa.Array], pa.Array]:
    """From a batch of arguments to a batch of (result, fault)."""

    def attempt_all(given: pa.Array) -> pa.Array:
        results: list[object] = []
        faults: list[str | None] = []
        for is_good, *arguments in zip(*map(_objects, given.flatten()), strict=True):
            result, fault = None, None
            if is_good and NOT_UTF8 in arguments:
                fault = f"argument {arguments.index(NOT_UTF8) + 1} of {name} is not UTF-8"
            elif is_good:
                result, fault = _outcome(function, arguments, name, kind)
            results.append(result)
            faults.append(fault)
        return pa.StructArray.from_arrays(
            [pa.array(results, kind), pa.array(faults, pa.string())], names=["result", "fault"]
        )

    return attempt_all


class _NotUtf8(Enum):
    """Stands for an argument that no Python object can be made of."""

    TEXT = "text"


NOT_UTF8 = _NotUtf8.TEXT


def _objects(column: pa.Array) -> list[object]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_object(one) for one in column]


def _object(value: pa.Scalar) -> object:
    """Of one row: Spark casts any bytes to a string, and Python does not."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return NOT_UTF8


def _outcome(
    function: Callable[..., object], arguments: list[Any], name: str, kind: pa.DataType
) -> tuple[object, str | None]:
    try:
        result = function(*arguments)
        # What the function returns may be the fault as well.
        return pa.scalar(result, kind).as_py(), None
    except Exception as error:  # whatever it is, it becomes the reason of this row
        said = " ".join(f"{name} failed: {type(error).__name__}: {error}".split())
        return None, said.removesuffix(":")[:REASON_CHARACTERS_MAX]


def was_counted() -> Column:
    """Whether a row is a replayed letter of a record that some queries have counted. It would count
    twice there; for the others it is too late. Asks for the column `headers`.
    """
    return F.coalesce(F.exists("headers", lambda one: one["key"] == letter.COUNTED), F.lit(False))


def replayed_ms() -> Column:
    """When a row was replayed; null for one that was not. Asks for the column `headers`."""
    return _last(F.col("headers"), letter.REPLAYED_AT).try_cast("bigint")


def _letter_columns(dead_letters: str, reason: str, counted: Column | None) -> dict[str, Column]:
    """A bad row as it came, with where it came from and why it is bad."""
    own = F.coalesce(F.col("headers"), F.array().cast(HEADERS_TYPE))
    elsewhere = was_counted() if counted is None else was_counted() | counted
    mark = F.array(_header(letter.COUNTED, F.lit("true"))).cast(HEADERS_TYPE)
    others = F.filter(own, lambda header: ~header["key"].startswith(letter.PREFIX))
    ours = F.array(
        _header(letter.TOPIC, F.col("topic")),
        _header(letter.PARTITION, F.col("partition").cast("string")),
        _header(letter.OFFSET, F.col("offset").cast("string")),
        _header(letter.TIMESTAMP, F.unix_millis(F.col("timestamp")).cast("string")),
        _header(letter.REASON, F.col(reason)),
        _header(letter.ATTEMPT, (_attempts(own) + 1).cast("string")),
    )
    return {
        "key": F.col("key").cast("binary"),
        "value": F.col("value").cast("binary"),
        "headers": F.concat(
            others, ours, F.when(elsewhere, mark).otherwise(F.array().cast(HEADERS_TYPE))
        ).cast(HEADERS_TYPE),
        "topic": F.lit(dead_letters),
        "partition": F.lit(None).cast("int"),
        # That of the writing: by the record's, retention could take the letter at once.
        "timestamp": F.lit(None).cast("timestamp"),
    }


def _attempts(headers: Column) -> Column:
    """How often it was tried before, as a letter that was replayed says; else 0."""
    return F.coalesce(_last(headers, letter.ATTEMPT).try_cast("int"), F.lit(0))


def _last(headers: Column, name: str) -> Column:
    """The text of the last header of this name, or null."""
    told = F.filter(headers, lambda header: header["key"] == name)
    return F.try_element_at(told, F.lit(-1))["value"].cast("string")


def _header(name: str, text: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))


def _column(one: Column | str) -> Column:
    return F.col(one) if isinstance(one, str) else one


def _type_of(rows: DataFrame, returns: str | DataType) -> DataType:
    return DataType.fromDDL(returns) if isinstance(returns, str) else returns


def _need(rows: DataFrame, columns: tuple[str, ...]) -> None:
    for name in columns:
        if name not in rows.columns:
            how = ": read the topic with includeHeaders=true" if name == "headers" else ""
            raise BadRoute(f"dead letters need the column {name}{how}")

"""The ledger's events into views of accounts.

Every view has the columns `account`, `events` and `last_offset`: the number of events in it, and
the last of them. An account's events lie in one partition, in order, so of two rows of one account,
be they of different versions of a view, the one with the larger `last_offset` is newer.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.spark.schemas import BriefJson

KINDS = ("opened", "deposited", "withdrawn")
EVENT = """
    event_id string, kind string NOT NULL, account string NOT NULL, amount_cents bigint NOT NULL,
    at_ms bigint NOT NULL
"""


def ledger_events(records: DataFrame) -> DataFrame:
    """Typed events. One that can't be read ends the query: a view must not be built around it."""
    schema, text, raw = BriefJson(EVENT), F.col("value").cast("string"), F.col("raw")
    event = schema.value(raw)
    unknown = F.when(
        ~event["kind"].isin(*KINDS), F.lit(f"field kind is none of {', '.join(KINDS)}")
    )
    fault = F.coalesce(schema.fault(text, raw), unknown)
    place = F.concat(F.lit("partition "), "partition", F.lit(", offset "), "offset")
    error = F.raise_error(F.concat(F.lit("no event of the ledger: "), place, F.lit(": "), fault))
    return (
        records.select("partition", "offset", "value", schema.raw(text).alias("raw"))
        .withColumn("event", F.when(fault.isNull(), event).otherwise(error))
        .select("partition", "offset", "event.*")
    )


def balances_v1(events: DataFrame) -> DataFrame:
    """What is on each account."""
    return events.groupBy("account").agg(
        F.sum(_change()).alias("balance_cents"), *_progress_of_account()
    )


def balances_v2(events: DataFrame) -> DataFrame:
    """Besides, what came in and went out, and when something happened last."""
    return events.groupBy("account").agg(
        F.sum(_change()).alias("balance_cents"),
        F.sum(_of("deposited")).alias("deposited_cents"),
        F.sum(_of("withdrawn")).alias("withdrawn_cents"),
        F.max("at_ms").alias("last_at_ms"),
        *_progress_of_account(),
    )


VIEWS: dict[int, Callable[[DataFrame], DataFrame]] = {1: balances_v1, 2: balances_v2}


def as_records(rows: DataFrame) -> DataFrame:
    return rows.select(
        F.col("account").cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )


def latest(records: DataFrame, columns: str) -> DataFrame:
    """A view as its topic tells it: of each account the row that was written last."""
    newest = Window.partitionBy("key").orderBy(F.desc("offset"))
    row = F.from_json(F.col("value").cast("string"), columns)
    return (
        records.withColumn("age", F.row_number().over(newest))
        .where("age = 1 AND value IS NOT NULL")
        .select(row.alias("row"))
        .select("row.*")
    )


def _progress_of_account() -> list[Column]:
    return [F.count("*").alias("events"), F.max("offset").alias("last_offset")]


def _change() -> Column:
    return _of("deposited") - _of("withdrawn")


def _of(kind: str) -> Column:
    return F.when(F.col("kind") == kind, F.col("amount_cents")).otherwise(0)

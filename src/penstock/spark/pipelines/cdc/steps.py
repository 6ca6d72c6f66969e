"""Changes of products, as their topic holds them, to what each reader wants. Reads and writes
nothing.

    changes      records to typed rows: what a product is now, or that it is gone
    serving      one record for the search index and one for the cache, tombstones for what is gone
    latest       of the changes in a frame the last one of each product
    history      every change, for those who ask how it was
    features     per product what its changes tell a model
    as_of        of a history the changes that a topic had at certain offsets
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.spark.pipelines.cdc.pgoutput import Kind
from penstock.spark.pipelines.cdc.record import KIND, POSITION, STEP
from penstock.spark.schemas import BriefJson

SEARCH = "cdc.search"
CACHE = "cdc.cache"
FIELDS = ("name", "description", "category", "price_cents", "stock")
FEATURE_FIELDS = ("price_cents", "stock")  # those of them that `features` asks for
ROW = "name string, description string, category string, price_cents bigint, stock int"
# Changes of one product are in one order, also where more partitions have moved its key.
ORDER = ("position", "step")
PLACE = ("partition", "offset")  # of its record in the topic


def changes(records: DataFrame) -> DataFrame:
    """The records need their headers. A change is known by `position` and `step`. A value that is
    no row ends the query: whatever is built without it would be wrong.
    """
    schema, text, raw = BriefJson(ROW), F.col("value").cast("string"), F.col("raw")
    fault = F.when(text.isNotNull(), schema.fault(text, raw))
    place = F.concat(F.lit("partition "), "partition", F.lit(", offset "), "offset")
    error = F.raise_error(F.concat(F.lit("no row of a product: "), place, F.lit(": "), fault))
    return (
        records.withColumn("raw", schema.raw(text))
        .select(
            F.col("key").cast("string").cast("bigint").alias("id"),
            F.when(fault.isNull(), schema.value(raw)).otherwise(error).alias("row"),
            F.col("value").isNull().alias("deleted"),
            _header(KIND).alias("kind"),
            _header(POSITION).cast("bigint").alias("position"),
            _header(STEP).cast("int").alias("step"),
            F.col("timestamp").alias("at"),
            *PLACE,
        )
        .select("id", *(f"row.{name}" for name in FIELDS), "deleted", "kind", *ORDER, "at", *PLACE)
    )


def serving(changed: DataFrame) -> DataFrame:
    """Records with their topics. Both of a change come from one row, in the order of changes."""
    records = F.array(
        _record(SEARCH, key=F.col("id").cast("string"), value=_document()),
        _record(CACHE, key=F.concat(F.lit("product:"), "id"), value=F.struct("id", *FIELDS)),
    )
    return changed.select(F.explode(records).alias("record")).select("record.*")


def latest(changed: DataFrame) -> DataFrame:
    """One row of each product."""
    others = F.struct(*(name for name in changed.columns if name != "id"))
    last = F.max_by(others, F.struct(*ORDER)).alias("last")
    return changed.groupBy("id").agg(last).select("id", "last.*")


def rows(changed: DataFrame) -> DataFrame:
    """The products as they are now, and which of them to take away."""
    return latest(changed).select("id", *FIELDS, F.col("at").alias("changed_at"), "deleted")


def history(changed: DataFrame) -> DataFrame:
    return changed.select("id", "kind", "at", *ORDER, *FIELDS, *PLACE)


def as_of(past: DataFrame, offsets: Mapping[int, int]) -> DataFrame:
    """Changes as `features` and `rows` take them: of a history those in front of an offset of
    their partition. Partitions that are not named count whole. A change without an offset was
    written before histories had any, and is in front of all.
    """
    later = F.lit(False)
    for partition, offset in offsets.items():
        later = later | ((F.col("partition") == partition) & (F.col("offset") >= offset))
    deleted = F.col("kind").isin(Kind.DELETE.value, Kind.TRUNCATE.value)
    return past.where(~F.coalesce(later, F.lit(False))).withColumn("deleted", deleted)


def features(changed: DataFrame) -> DataFrame:
    """What has come of a product since its first change; `deleted` when it is gone by now."""
    order = F.struct(*ORDER)
    return changed.groupBy("id").agg(
        F.count("*").alias("change_count"),
        F.min("price_cents").alias("price_cents_min"),
        F.max("price_cents").alias("price_cents_max"),
        F.round(F.avg("price_cents")).cast("bigint").alias("price_cents_mean"),
        F.max_by("price_cents", order).alias("price_cents_last"),
        F.count_if(F.col("stock") == 0).alias("sold_out_count"),
        F.max("at").alias("changed_at"),
        F.max_by("deleted", order).alias("deleted"),
    )


def _document() -> Column:
    """What a search engine is given: the text to search, and what to filter by."""
    return F.struct(
        "id",
        F.concat_ws(" ", "name", "description").alias("text"),
        "category",
        (F.col("stock") > 0).alias("available"),
        F.floor(F.col("price_cents") / 1000).cast("int").alias("price_band"),
    )


def _record(topic: str, *, key: Column, value: Column) -> Column:
    text = F.when(~F.col("deleted"), F.to_json(value))  # null otherwise: a tombstone
    return F.struct(F.lit(topic).alias("topic"), key.alias("key"), text.alias("value"))


def _header(name: str) -> Column:
    found = F.filter("headers", lambda header: header["key"] == name)
    return F.get(found, F.lit(0))["value"].cast("string")

"""The features of products as they were when the topic of changes ended at certain offsets.

A model is trained on what was known at a time, so what came later must not be in it. The history of
the pipeline has every change with its offset, also those that compaction has removed from the
topic. The features are those of `steps`, the same that the running query keeps in PostgreSQL.

The tasks read the files of the history, each only the columns that are needed and what lies in
front of the offsets. The driver has the names of the files alone.
"""

from collections.abc import Mapping, Sequence

from pyarrow.compute import Expression, field, scalar
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.cdc import steps
from penstock.spark.tables.delta_reading import rows_of
from penstock.spark.tables.delta_table import Target
from penstock.spark.tables.store_options import store_options


def features_as_of(
    spark: SparkSession, history: str, offsets: Mapping[int, int], **storage_options: str
) -> DataFrame:
    """One row for each product that there was. `history` is the Delta table, `offsets` has the next
    offset of each partition of the topic, as groups commit it.
    """
    past = _changes_as_of(spark, history, offsets, storage_options, fields=steps.FEATURE_FIELDS)
    return steps.features(past).where("NOT deleted").drop("deleted")


def rows_as_of(
    spark: SparkSession, history: str, offsets: Mapping[int, int], **storage_options: str
) -> DataFrame:
    """The products themselves, as they were then."""
    past = _changes_as_of(spark, history, offsets, storage_options, fields=steps.FIELDS)
    return steps.rows(past).where("NOT deleted").drop("deleted")


def _changes_as_of(
    spark: SparkSession,
    history: str,
    offsets: Mapping[int, int],
    storage_options: dict[str, str],
    *,
    fields: Sequence[str],
) -> DataFrame:
    # Of the driver, and the tasks get them: workers need no environment of their own.
    options = store_options(history, storage_options)
    target = Target(uri=history, storage_options=options or None)
    columns = ("id", "kind", "at", *steps.ORDER, *fields, *steps.PLACE)
    past = rows_of(spark, target, columns=columns, condition=may_be_before(offsets))
    return steps.as_of(past, offsets)


def may_be_before(offsets: Mapping[int, int]) -> Expression:
    """False only for changes that `steps.as_of` leaves out. Those without an offset have nulls, for
    which a comparison alone would not hold.
    """
    partition, offset = field("partition"), field("offset")
    later = scalar(False)
    for number, end_offset in offsets.items():
        later = later | ((partition == number) & (offset >= end_offset))
    if offsets and offsets.keys() == set(range(len(offsets))):
        # The same once more, of what lies behind all of them: of a file in which changes of several
        # partitions are mixed, only the least and the greatest values are known without reading it.
        is_named = (partition >= 0) & (partition < len(offsets))
        later = later | (is_named & (offset >= max(offsets.values())))
    return partition.is_null() | offset.is_null() | ~later

"""The features of products as they were when the topic of changes ended at certain offsets.

A model is trained on what was known at a time, so what came later must not be in it. The history of
the pipeline has every change with its offset, also those that compaction has removed from the
topic. The features are those of `steps`, the same that the running query keeps in PostgreSQL.
"""

from collections.abc import Mapping

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.cdc import steps


def features_as_of(
    spark: SparkSession, history: str, offsets: Mapping[int, int], **storage_options: str
) -> DataFrame:
    """One row for each product that there was. `history` is the Delta table, `offsets` has the next
    offset of each partition of the topic, as groups commit it.
    """
    found = steps.features(_changes_as_of(spark, history, offsets, storage_options))
    return found.where("NOT deleted").drop("deleted")


def rows_as_of(
    spark: SparkSession, history: str, offsets: Mapping[int, int], **storage_options: str
) -> DataFrame:
    """The products themselves, as they were then."""
    found = steps.rows(_changes_as_of(spark, history, offsets, storage_options))
    return found.where("NOT deleted").drop("deleted")


def _changes_as_of(
    spark: SparkSession,
    history: str,
    offsets: Mapping[int, int],
    storage_options: dict[str, str],
) -> DataFrame:
    table = DeltaTable(history, storage_options=storage_options or None)
    return steps.as_of(spark.createDataFrame(table.to_pyarrow_table()), offsets)

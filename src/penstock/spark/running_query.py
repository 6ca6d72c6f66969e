"""Which query calls a function that `foreachBatch` was given, as far as Spark tells."""

from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.spark.batch_identity import QUERY_PROPERTY, RUN_PROPERTY


class RunningQuery(NamedTuple):
    query_id: str | None  # None: no query calls
    run_id: str | None


def running_query(frame: DataFrame) -> RunningQuery | None:
    """None: Spark can't be asked. Spark Connect has no local properties."""
    try:
        context = frame.sparkSession.sparkContext
        return RunningQuery(
            context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(RUN_PROPERTY)
        )
    except PySparkException:
        return None

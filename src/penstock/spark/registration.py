"""What `register()` adds to a Spark session: the format "penstock"."""

from pyspark.sql import SparkSession

from penstock.spark.data_source import PenstockDataSource

# Without it Spark refuses a source that takes filters, instead of keeping them to itself.
FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


REGISTERED = "spark.penstock.registered"


def register(spark: SparkSession) -> None:
    """Adds the source and the sink to a session; once more does no harm."""
    if spark.conf.get(REGISTERED, None) is not None:
        return
    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(PenstockDataSource)
    spark.conf.set(REGISTERED, "true")

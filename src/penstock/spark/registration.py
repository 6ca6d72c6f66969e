"""What `register()` adds to a Spark session: the format "penstock", who tells of the lag of its
queries, and who ends what they leave open.
"""

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.spark.clean_up import CleanUpListener
from penstock.spark.data_source import PenstockDataSource
from penstock.spark.error_line import print_error_line_last
from penstock.spark.lag import LagListener
from penstock.spark.program_end import finish_at_program_end

# Without it Spark refuses a source that takes filters, instead of keeping them to itself.
FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


REGISTERED = "spark.penstock.registered"


def register(spark: SparkSession) -> None:
    """Adds the source and the sink to a session; once more does no harm."""
    if spark.conf.get(REGISTERED, None) is not None:
        return
    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(PenstockDataSource)
    if not is_remote():  # a client of Spark Connect can't see what a query was told
        listeners = (LagListener(spark), CleanUpListener(spark))
        for listener in listeners:
            spark.streams.addListener(listener)
        finish_at_program_end(spark, listeners)
    print_error_line_last()
    spark.conf.set(REGISTERED, "true")

"""What `register()` adds to a Spark session: the format "penstock", a listener that commits the
progress of queries, and one that ends the transactions that they leave open.
"""

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.spark.clean_up import CleanUpListener
from penstock.spark.data_source import data_source
from penstock.spark.error_line import print_error_line_last
from penstock.spark.lag import LagListener
from penstock.spark.program_end import finish_at_program_end

# Without it Spark refuses a source that accepts filters, instead of not passing any.
FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PARALLELISM = "spark.default.parallelism"
REGISTERED = "spark.penstock.registered"


def register(spark: SparkSession) -> None:
    """Adds the source and the sink to a session; a second call has no effect."""
    if spark.conf.get(REGISTERED, None) is not None:
        return
    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(data_source(cores=_cores(spark)))
    if not is_remote():  # a client of Spark Connect can't see the options of a query
        listeners = (LagListener(spark), CleanUpListener(spark))
        for listener in listeners:
            spark.streams.addListener(listener)
        finish_at_program_end(spark, listeners)
    print_error_line_last()
    spark.conf.set(REGISTERED, "true")


def _cores(spark: SparkSession) -> int | None:
    """How many tasks run at once, if that is known already: the executors of a cluster may come
    later.
    """
    if is_remote():
        return None
    settings = spark.sparkContext.getConf()
    is_local = settings.get("spark.master", "").startswith("local")
    if is_local or settings.contains(PARALLELISM):
        return spark.sparkContext.defaultParallelism
    executors, each = settings.get("spark.executor.instances"), settings.get("spark.executor.cores")
    if executors is None or each is None:
        return None
    return int(executors) * int(each)

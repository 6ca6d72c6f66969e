"""What `register()` adds to a Spark session: the format "penstock", a listener that commits the
progress of queries, and one that ends the transactions that they leave open. A session of Spark
Connect has the format alone: its client can't see the options of a query.
"""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.model.error import PenstockError
from penstock.spark.clean_up import CleanUpListener
from penstock.spark.data_source import data_source
from penstock.spark.error_line import print_error_line_last
from penstock.spark.lag import LagListener
from penstock.spark.program_end import finish_at_program_end

# Without it Spark refuses a source that accepts filters, instead of not passing any.
FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PARALLELISM = "spark.default.parallelism"
REGISTERED = "spark.penstock.registered"


class SettingNeeded(PenstockError):
    """A session that lets nobody change its settings lacks one."""


def register(spark: SparkSession) -> None:
    """Adds the source and the sink to a session; a second call has no effect."""
    if is_remote():
        _accept_filters(spark)
        spark.dataSource.register(data_source(cores=None))
        print_error_line_last()
        return
    if spark.conf.get(REGISTERED, None) is not None:
        return
    _accept_filters(spark)
    spark.dataSource.register(data_source(cores=_cores(spark)))
    listeners = (LagListener(spark), CleanUpListener(spark))
    for listener in listeners:
        spark.streams.addListener(listener)
    finish_at_program_end(spark, listeners)
    print_error_line_last()
    spark.conf.set(REGISTERED, "true")


def _accept_filters(spark: SparkSession) -> None:
    if spark.conf.get(FILTER_PUSHDOWN, None) == "true":
        return
    try:
        spark.conf.set(FILTER_PUSHDOWN, "true")
    except PySparkException as error:
        raise SettingNeeded(
            f"definitions of a pipeline can't change settings: write `{FILTER_PUSHDOWN}:"
            ' "true"` below `configuration:` in its spark-pipeline.yml'
        ) from error


def _cores(spark: SparkSession) -> int | None:
    """How many tasks run at once, if that is known already: the executors of a cluster may come
    later.
    """
    settings = spark.sparkContext.getConf()
    is_local = settings.get("spark.master", "").startswith("local")
    if is_local or settings.contains(PARALLELISM):
        return spark.sparkContext.defaultParallelism
    executors, each = settings.get("spark.executor.instances"), settings.get("spark.executor.cores")
    if executors is None or each is None:
        return None
    return int(executors) * int(each)

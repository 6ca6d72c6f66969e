"""Empty results of a profiler that nobody has turned on, kept from Spark.

The Python processes that plan a query report results of Spark's profiler of data sources also where
it is off: empty ones. Spark Connect passes them to its client, and the client of Spark 4.2.0 takes
them for an unknown response to the command that runs a declarative pipeline: `spark-pipelines`
ends with an error after a run that was completed (SPARK-59135).
"""

import sys

from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry

RESULTS = (SpecialAccumulatorIds.SQL_UDF_PROFIER, SpecialAccumulatorIds.SQL_UDF_PROFIER_V2)


def drop_empty_results() -> None:
    """In a process that plans a query; in the driver's own it has no effect."""
    if _is_profiled():
        return
    for result in RESULTS:
        _accumulatorRegistry.pop(result, None)


def _is_profiled() -> bool:
    """By Spark's profiler of time, which is Python's own, or by its profiler of memory."""
    if sys.getprofile() is not None or sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12 the profiler is known there
    return monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is not None

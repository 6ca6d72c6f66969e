"""Spark on Penstock: a ready session, and the format "penstock" for a session of one's own.

    spark = penstock.spark.session()
    orders = spark.readStream.format("penstock").options(**options).load()

    penstock.spark.register(spark)  # a session that was made elsewhere

    penstock.spark.batch_writer(frame, batch_id)  # in foreachBatch: each batch once

    penstock.spark.offsets_behind(query.lastProgress)  # the lag of a query, by partition

PySpark is an optional dependency, and some modules of this package work without it. So the names
below are imported when they are first used, as are those of the table in data_source.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.foreach_batch import batch_writer
    from penstock.spark.progress import offsets_behind
    from penstock.spark.registration import register
    from penstock.spark.start import session

__all__ = ["batch_writer", "offsets_behind", "register", "session"]

_HOME = {
    "batch_writer": "penstock.spark.foreach_batch",
    "offsets_behind": "penstock.spark.progress",
    "register": "penstock.spark.registration",
    "session": "penstock.spark.start",
}
_EXTRA = ("pyspark", "pyarrow", "pandas", "py4j")


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOME[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        sentence = f"penstock.spark.{name} needs Spark: pip install 'penstock[spark]'"
        raise ModuleNotFoundError(sentence, name=missing.name) from None

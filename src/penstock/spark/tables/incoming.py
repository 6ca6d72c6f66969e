"""A batch before it is written: which query made it, and whether keys tell its rows apart.

Columns are looked at whole, in Arrow; no row becomes a Python object.
"""

from collections.abc import Sequence

import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame

from penstock.spark.running_query import running_query
from penstock.spark.tables.errors import NoQuery, WrongColumns, WrongKeys


def query_of(frame: DataFrame) -> str:
    """The id of the query that calls. Whoever writes without one has to say so: batch 0 of a new
    checkpoint would else be taken for batch 0 of the one before, and skipped.
    """
    found = running_query(frame)
    if found is None or not found.query_id:
        raise NoQuery(
            "Spark does not tell which query has made the batch: write it in the thread that"
            " foreachBatch calls; elsewhere, and with Spark Connect, pass query=, the id of the"
            ' query; a program without a query passes query=""'
        )
    return found.query_id


def run_through(frame: DataFrame) -> None:
    """Runs a batch that nobody wants the rows of: a query that keeps state has to compute every
    batch, or Spark misses the state that follows from it.
    """
    frame.write.format("noop").mode("overwrite").save()


def check_named(frame: DataFrame, *, keys: Sequence[str], deleted: str | None) -> None:
    """Raises WrongColumns where the frame lacks a key or the flag, or the flag is none."""
    if not keys:
        raise WrongKeys("an upsert needs keys: the columns that identify a row")
    types = dict(frame.dtypes)
    lacking = [name for name in (*keys, *filter(None, [deleted])) if name not in types]
    if lacking:
        raise WrongColumns(f"the batch has no column {named(lacking)}; it has {named(types)}")
    if deleted is not None and types[deleted] != "boolean":
        raise WrongColumns(
            f"column {deleted!r} marks deleted rows and must be boolean: it is {types[deleted]}"
        )


def check_keys(rows: pyarrow.Table, keys: Sequence[str]) -> None:
    """Raises WrongKeys unless every row has all its keys, and no other row has the same."""
    for key in keys:
        if rows[key].null_count:
            raise WrongKeys(f"key {key!r} is null in {rows[key].null_count} rows of the batch")
    counted = rows.select(keys).group_by(list(keys)).aggregate([([], "count_all")])
    twice = counted.filter(pyarrow.compute.greater(counted["count_all"], 1))
    if twice.num_rows:
        [example] = twice.slice(0, 1).select(keys).to_pylist()
        occur = "key occurs" if twice.num_rows == 1 else "keys occur"
        raise WrongKeys(
            f"{twice.num_rows} {occur} more than once in the batch, such as {example}: "
            "keep one row of each key, the latest, before writing"
        )


def named(names: Sequence[str] | dict[str, str]) -> str:
    return ", ".join(repr(name) for name in names)

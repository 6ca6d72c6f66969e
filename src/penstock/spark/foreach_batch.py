"""A writer for the batches that a query hands to a function of one's own (`foreachBatch`)."""

import uuid

from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameWriter

from penstock.model.error import PenstockError
from penstock.spark.running_query import running_query

FORMAT = "penstock"


class NoQuery(PenstockError):
    """A batch is written where Spark does not tell whose it is."""


def batch_writer(frame: DataFrame, batch_id: int, *, sink_id: str | None = None) -> DataFrameWriter:
    """Writes the batch once, however often Spark calls the function again.

        def write(frame, batch_id):
            penstock.spark.batch_writer(frame, batch_id).options(topic="totals", **brokers).save()

    Each write of one function needs its own `sink_id`. Without one it is made of the query's id,
    which lasts as long as its checkpoint.
    """
    query_id, run_id = _told(frame)
    return (
        frame.write.format(FORMAT)
        .mode("append")
        .options(
            sinkId=f"batches-{query_id}" if sink_id is None else sink_id,
            queryId=query_id,
            runId=run_id,
            batchId=str(batch_id),
        )
    )


def _told(frame: DataFrame) -> tuple[str, str]:
    """The ids of the query and of its run."""
    found = running_query(frame)
    if found is None:
        raise NoQuery(
            "batch_writer can't tell which query calls it: Spark Connect does not say; run the"
            " program with --master or by spark-submit"
        )
    query_id, run_id = found
    if query_id is None or run_id is None:
        raise NoQuery(
            "batch_writer was not called by a query: use it in the function that foreachBatch is"
            " given, in the thread that calls the function"
        )
    if not _is_uuid(run_id):
        raise NoQuery(
            f"batch_writer can't tell which run of the query calls it: its job group is {run_id!r},"
            " and Spark sets it to the id of the run; set no job group before the write"
        )
    return query_id, run_id


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True

"""Which batch of which query a write is, and where it stands to those that were written. Pure.

Spark repeats a batch when it does not know whether it was written. A query has one id for as long
as its checkpoint lasts, and its batches are numbered. So the sink and the tables remember, with
the rows, the last batch of the query that writes, and which queries wrote before it. What a place
means is theirs to say: the sink wants every batch, a table may be left out of some.
"""

from enum import Enum, auto

# Spark tells of the query only by local properties of its thread, and of its tasks.
QUERY_PROPERTY = "sql.streaming.queryId"
RUN_PROPERTY = "spark.jobGroup.id"
BATCH_PROPERTY = "streaming.sql.batchId"


class BatchPlace(Enum):
    FIRST = auto()  # of its query: what others wrote says nothing of it
    NEXT = auto()
    LATER = auto()  # batches in between are missing
    REPEATED = auto()  # it is the last one that was written
    OLDER = auto()  # its writer does not know what was written since
    SUPERSEDED = auto()  # another query has written since its own did


def place_of(batch_id: int, *, last_batch_id: int | None, taken_over: bool) -> BatchPlace:
    """`last_batch_id`: of the batch's own query, None if it has not written, or none knows."""
    assert batch_id >= 0
    if taken_over:
        return BatchPlace.SUPERSEDED
    if last_batch_id is None:
        return BatchPlace.FIRST
    if batch_id == last_batch_id:
        return BatchPlace.REPEATED
    if batch_id < last_batch_id:
        return BatchPlace.OLDER
    return BatchPlace.NEXT if batch_id == last_batch_id + 1 else BatchPlace.LATER

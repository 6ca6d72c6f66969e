"""Writes batches to a PostgreSQL table, each once: for foreachBatch.

    def into(frame: DataFrame, batch_id: int) -> None:
        postgres.upsert(frame, batch_id, dsn=DSN, table="stock", keys=["sku"], app="stock")

    levels.writeStream.foreachBatch(into).option("checkpointLocation", ...).start()

The rows and the batch's number are one database transaction; a repeated batch finds its number and
is skipped (see `batches` for the whole rule). A writer holds the lock on the row of its app until
then, so that an outdated driver waits, and is then refused.

The table is the user's own, with a primary key or unique constraint on `keys`; it may have more
columns than the batch, which keep what they hold, or get their default. The batch comes to the
driver as Arrow, goes on as CSV by COPY into a temporary table, and from there into the table by one
INSERT ... ON CONFLICT: no row becomes a Python object. It must fit into the driver's memory, twice;
`maxOffsetsPerTrigger` is what bounds it.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from penstock.spark.tables.batches import Batch
from penstock.spark.tables.incoming import check_keys, check_named, query_of, run_through
from penstock.spark.tables.postgres_table import Target, connect, is_written, merge_rows
from penstock.spark.tables.postgres_text import as_text


def upsert(
    frame: DataFrame,
    batch_id: int,
    *,
    dsn: str,
    table: str,
    keys: Sequence[str],
    app: str,
    deleted: str | None = None,
    query: str | None = None,
) -> bool:
    """Writes the batch; returns False where it was in the table already.

    Rows whose boolean column `deleted` is true take the row of their key away; the column itself is
    not stored. `query` is Spark's query id, and found by itself within foreachBatch; "" of a
    program that has no query.
    """
    check_named(frame, keys=keys, deleted=deleted)
    query = query_of(frame) if query is None else query
    batch = Batch(app=app, query=query, batch_id=batch_id)
    target = Target(table=table, keys=tuple(keys), deleted=deleted)
    with connect(dsn) as connection:
        # Asked twice: here, to spare Spark the work, and again under the lock.
        already = is_written(connection, target, batch)
    # Between the two no transaction is open, for Spark may take its time.
    if already:
        run_through(frame)
        return False
    rows = as_text(frame).toArrow()
    check_keys(rows, keys)
    with connect(dsn) as connection:
        return merge_rows(connection, target, batch, rows)

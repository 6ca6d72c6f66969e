"""Batches written to tables without Spark, for processes that are killed while they write."""

import pandas  # noqa: F401, pyarrow would else load it in each process
import psycopg
import pyarrow

from penstock.spark.tables import delta_files, delta_table, postgres_table
from penstock.spark.tables.batches import Batch
from penstock.spark.tables.store_options import store_options

QUERY = "b34d1a7e"
KEYS = 5  # so many keys take turns in being changed
ROWS_A_BATCH = 3
LEDGER = """
    CREATE TABLE ledger (id bigint PRIMARY KEY, batch bigint, note text DEFAULT 'none');
    CREATE TABLE changes (what text, id bigint, batch bigint);
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            INSERT INTO changes VALUES (TG_OP, OLD.id, OLD.batch);
        ELSE
            INSERT INTO changes VALUES ('WRITE', NEW.id, NEW.batch);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON ledger
        FOR EACH ROW EXECUTE FUNCTION note_change();
"""


def batch_of(batch_id: int) -> Batch:
    return Batch(app="ledger", query=QUERY, batch_id=batch_id)


def new_rows(batch_id: int) -> pyarrow.Table:
    """Rows that no other batch has."""
    numbers = range(batch_id * ROWS_A_BATCH, (batch_id + 1) * ROWS_A_BATCH)
    return pyarrow.table({"id": list(numbers), "batch": [batch_id] * ROWS_A_BATCH})


def changed_rows(batch_id: int) -> pyarrow.Table:
    """One key gets a new value, and the next one is deleted."""
    return pyarrow.table(
        {
            "id": [batch_id % KEYS, (batch_id + 1) % KEYS],
            "batch": [batch_id, batch_id],
            "gone": [False, True],
        }
    )


def left_after(batch_id: int) -> list[tuple[int, int]]:
    """The rows of a table after the changes of all batches up to this one."""
    rows: dict[int, int] = {}
    for one in range(batch_id + 1):
        rows[one % KEYS] = one
        rows.pop((one + 1) % KEYS, None)
    return sorted(rows.items())


def append_to_delta(uri: str, batch_id: int) -> None:
    rows = new_rows(batch_id)
    target = delta_table.Target(uri=uri)
    _made(target, rows)
    delta_table.commit(target, batch_of(batch_id), delta_table.adding_rows(rows))


def upload_to_delta(uri: str, options: dict[str, str], batch_id: int) -> None:
    """As a task and its driver do it, one after the other."""
    rows = new_rows(batch_id)
    target = delta_table.Target(uri=uri, storage_options=store_options(uri, options))
    _made(target, rows)
    file = delta_files.write_file(target, rows.schema, iter(rows.to_batches()))
    assert file is not None
    change = delta_table.adding_files([file.addition()])
    delta_table.commit(target, batch_of(batch_id), change)


def merge_into_delta(uri: str, batch_id: int) -> None:
    rows = changed_rows(batch_id)
    target = delta_table.Target(uri=uri)
    _made(target, rows.drop_columns(["gone"]))
    change = delta_table.merging_rows(rows, keys=["id"], deleted="gone")
    delta_table.commit(target, batch_of(batch_id), change)


def merge_into_postgres(dsn: str, batch_id: int) -> None:
    target = postgres_table.Target(table="ledger", keys=("id",), deleted="gone")
    batch = batch_of(batch_id)
    with postgres_table.connect(dsn) as connection:
        if not postgres_table.is_written(connection, target, batch):
            postgres_table.merge_rows(connection, target, batch, changed_rows(batch_id))


def make_ledger(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(LEDGER)


def _made(target: delta_table.Target, rows: pyarrow.Table) -> None:
    fields = [{"name": name, "type": "long"} for name in rows.column_names]
    loose = [{**field, "nullable": True, "metadata": {}} for field in fields]
    schema = delta_table.schema_of({"type": "struct", "fields": loose})
    delta_table.open_or_make(target, schema, app="ledger")

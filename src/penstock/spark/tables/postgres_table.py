"""One table of a PostgreSQL database: what it remembers of batches, and rows merged into it.

    penstock_batches
      app       text  with `target` the primary key; whoever writes holds the lock on this row
      target    text  the table, as its writer names it
      query     text  Spark's id of the query that writes now
      batch_id  bigint  its last batch; null before the first
      former    text[]  queries that it has taken over from
      at        timestamptz  when the last batch was written

Invariants
1. A batch's rows and its number are committed together, or not at all.
2. Between reading what is remembered and committing, nobody else commits to the same table under
   the same app.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pyarrow
from psycopg import sql

from penstock.spark.tables.batches import Batch, Verdict, Written, judge
from penstock.spark.tables.errors import (
    Contended,
    DatabaseUnreachable,
    TableError,
    UnknownTable,
    WrongColumns,
    WrongKeys,
)
from penstock.spark.tables.postgres_errors import address, one_line
from penstock.spark.tables.postgres_text import CSV, csv_chunks

CONNECT_SECONDS = 10
# A driver that stands still in the midst of a transaction, stopped or cut off, loses it after this
# time, and with it the lock that its successor waits for.
IDLE_SECONDS_MAX = 30
LOCK_SECONDS_MAX = 60
ATTEMPTS_MAX = 5  # deadlocks with others who write to the table
MAKING_LOCK = 0x70656E73746F636B  # an advisory lock of the database: "penstock"

MAKE_BATCHES = """
    CREATE TABLE IF NOT EXISTS penstock_batches (
        app text,
        target text,
        query text NOT NULL,
        batch_id bigint,
        former text[] NOT NULL DEFAULT '{}',
        at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (app, target)
    )
"""
ENTER_APP = """
    INSERT INTO penstock_batches (app, target, query) VALUES (%(app)s, %(target)s, %(query)s)
    ON CONFLICT DO NOTHING
"""
REMEMBERED = """
    SELECT query, batch_id, former FROM penstock_batches
    WHERE app = %(app)s AND target = %(target)s
"""
REMEMBER = """
    UPDATE penstock_batches
    SET former = CASE WHEN query = %(query)s THEN former ELSE former || query END,
        query = %(query)s, batch_id = %(batch_id)s, at = now()
    WHERE app = %(app)s AND target = %(target)s
"""

Connection = psycopg.Connection[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    table: str  # a name, or schema.name
    keys: tuple[str, ...]
    deleted: str | None  # the column that tells deleted rows

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(*self.table.split("."))


@contextmanager
def connect(dsn: str) -> Iterator[Connection]:
    """A connection whose faults are told in one line each, without the password."""
    try:
        connection = psycopg.connect(
            dsn, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="penstock"
        )
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise DatabaseUnreachable(f"{address(dsn)}: {one_line(error)}") from error
    with connection:
        yield connection


def is_written(connection: Connection, target: Target, batch: Batch) -> bool:
    """Whether the batch is there; makes what remembers batches, where it is missing."""
    with _errors_translated(target), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [MAKING_LOCK])
        connection.execute(MAKE_BATCHES)
    with _errors_translated(target):
        return _is_written(connection, target, batch, locked=False)


def merge_rows(connection: Connection, target: Target, batch: Batch, rows: pyarrow.Table) -> bool:
    """Writes the batch in one transaction; False: it was there already.

    The caller has seen to it that every key is there, and once.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            with _errors_translated(target), connection.transaction():
                return _merge_rows(connection, target, batch, rows)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            continue  # all of it was rolled back
    raise Contended(
        f"{target.table}: batch {batch.batch_id} met {ATTEMPTS_MAX} deadlocks with other writers; "
        "nothing of it is written"
    )


def _merge_rows(connection: Connection, target: Target, batch: Batch, rows: pyarrow.Table) -> bool:
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS_MAX}s'")
    connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS_MAX}s'")
    # Before the lock: the server does not take a driver that stands still within COPY for idle.
    if rows.num_rows:
        _copy(connection, target, rows)
    names = {"app": batch.app, "target": target.table, "query": batch.query}
    connection.execute(ENTER_APP, names)
    if _is_written(connection, target, batch, locked=True):
        return False
    if rows.num_rows:
        _merge(connection, target, [name for name in rows.column_names if name != target.deleted])
    connection.execute(REMEMBER, {**names, "batch_id": batch.batch_id})
    return True


def _is_written(connection: Connection, target: Target, batch: Batch, *, locked: bool) -> bool:
    asked = REMEMBERED + (" FOR UPDATE" if locked else "")
    found = connection.execute(asked, {"app": batch.app, "target": target.table}).fetchone()
    return judge(batch, written(found, batch), table=target.table) is Verdict.SKIP


def written(found: tuple[object, ...] | None, batch: Batch) -> Written:
    """What a row of penstock_batches tells of the batch's query."""
    if found is None:
        return Written(last_batch_id=None, taken_over=False)
    query, last, former = found
    assert last is None or isinstance(last, int)
    assert isinstance(former, list)
    if batch.query in former:
        return Written(last_batch_id=None, taken_over=True)
    return Written(last_batch_id=last if query == batch.query else None, taken_over=False)


def _copy(connection: Connection, target: Target, rows: pyarrow.Table) -> None:
    """The rows into a temporary table of the target's own types."""
    columns = [sql.Identifier(name) for name in rows.column_names if name != target.deleted]
    flag = (
        sql.SQL("")
        if target.deleted is None
        else sql.SQL(", NULL::boolean AS {}").format(sql.Identifier(target.deleted))
    )
    connection.execute(
        sql.SQL(
            "CREATE TEMPORARY TABLE penstock_incoming ON COMMIT DROP AS "
            "SELECT {columns}{flag} FROM {table} WITH NO DATA"
        ).format(columns=sql.SQL(", ").join(columns), flag=flag, table=target.identifier)
    )
    copying = sql.SQL("COPY penstock_incoming ({columns}) FROM STDIN ({csv})").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, rows.column_names)), csv=sql.SQL(CSV)
    )
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        for chunk in csv_chunks(rows):
            copy.write(memoryview(chunk))


def _merge(connection: Connection, target: Target, stored: list[str]) -> None:
    flagged = None if target.deleted is None else sql.Identifier(target.deleted)
    keys = sql.SQL(", ").join(map(sql.Identifier, target.keys))
    names = sql.SQL(", ").join(map(sql.Identifier, stored))
    changes = [
        sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name))
        for name in stored
        if name not in target.keys
    ]
    if flagged is not None:
        connection.execute(
            sql.SQL(
                "DELETE FROM {table} AS old USING penstock_incoming AS new "
                "WHERE new.{flag} AND {same}"
            ).format(
                table=target.identifier,
                flag=flagged,
                same=sql.SQL(" AND ").join(
                    sql.SQL("old.{0} = new.{0}").format(sql.Identifier(key)) for key in target.keys
                ),
            )
        )
    connection.execute(
        sql.SQL(
            # In the order of the keys, so that two who write the same rows wait for each other
            # instead of dying together.
            "INSERT INTO {table} ({names}) SELECT {names} FROM penstock_incoming {kept} "
            "ORDER BY {keys} ON CONFLICT ({keys}) DO {action}"
        ).format(
            table=target.identifier,
            names=names,
            keys=keys,
            kept=sql.SQL("")
            if flagged is None
            else sql.SQL("WHERE {} IS NOT TRUE").format(flagged),
            action=sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(changes))
            if changes
            else sql.SQL("NOTHING"),
        )
    )


@contextmanager
def _errors_translated(target: Target) -> Iterator[None]:
    """What the database says against a batch, in the words of this package."""
    try:
        yield
    except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
        raise
    except psycopg.errors.UndefinedTable as error:
        raise UnknownTable(f"there is no table {target.table}: {one_line(error)}") from error
    except psycopg.errors.UndefinedColumn as error:
        raise WrongColumns(f"{target.table}: {one_line(error)}") from error
    except psycopg.errors.InvalidColumnReference as error:
        raise WrongKeys(
            f"{target.table} has no primary key or unique constraint on {', '.join(target.keys)}"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise WrongColumns(f"{target.table}: {one_line(error)}") from error
    except psycopg.errors.LockNotAvailable as error:
        raise Contended(
            f"{target.table}: another driver has been writing under this app for over "
            f"{LOCK_SECONDS_MAX} s; nothing of the batch is written"
        ) from error
    except psycopg.OperationalError as error:
        # Whether the commit was done is known to the database alone: the batch is to come again.
        raise DatabaseUnreachable(
            f"{target.table}: the connection to the database was lost: {one_line(error)}"
        ) from error
    except psycopg.Error as error:
        raise TableError(f"{target.table}: {one_line(error)}") from error

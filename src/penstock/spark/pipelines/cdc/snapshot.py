"""A new slot, and the rows of the tables exactly as they were when it began.

What was committed until then is in the rows, and all the rest in the slot's log.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg import IsolationLevel, sql

from penstock.spark.pipelines.cdc.database import TableForm, identifier
from penstock.spark.pipelines.cdc.pgoutput import Change, Kind, lsn_number, typed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlot:
    position: int  # up to here everything is in the snapshot, and what is after it in the log
    snapshot: str  # a name that other connections see the database by, while the slot's is open


@asynccontextmanager
async def new_slot(dsn: str, name: str, *, temporary: bool = False) -> AsyncIterator[NewSlot]:
    """Makes the slot; waits for transactions of the database that are under way. A temporary one
    is gone at the end.
    """
    connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True, replication="database")
    async with connection:
        made = await connection.execute(
            sql.SQL("CREATE_REPLICATION_SLOT {} {} LOGICAL pgoutput (SNAPSHOT 'export')").format(
                sql.Identifier(name), sql.SQL("TEMPORARY" if temporary else "")
            )
        )
        row = await made.fetchone()
        assert row is not None
        # A commit may stand at the very point that the server names, and is not in the snapshot.
        yield NewSlot(position=lsn_number(row[1]) - 1, snapshot=row[2])


async def rows_of(dsn: str, slot: NewSlot, forms: Mapping[str, TableForm]) -> AsyncIterator[Change]:
    """The rows of each table in turn."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.execute(
            sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(slot.snapshot))
        )
        for table, form in forms.items():
            names = [column.name for column in form.columns]
            # As text, so that a value is the same as in the log.
            texts = [sql.SQL("{}::text").format(sql.Identifier(name)) for name in names]
            async with connection.cursor(name="penstock_rows") as cursor:
                await cursor.execute(
                    sql.SQL("SELECT {} FROM {}").format(
                        sql.SQL(", ").join(texts), identifier(table)
                    )
                )
                async for values in cursor:
                    row = {
                        name: None if text is None else typed(text, kind)
                        for name, kind, text in zip(names, form.types, values, strict=True)
                    }
                    key = tuple(row[column] for column in form.key)
                    yield Change(table=table, kind=Kind.SNAPSHOT, key=key, row=row)

"""What the database's catalogue says of the captured tables, and the publication they are in.

The server is PostgreSQL 15 or newer.
"""

from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from penstock.model.error import PenstockError
from penstock.spark.pipelines.cdc.pgoutput import Column, column_of
from penstock.spark.pipelines.cdc.source import Source
from penstock.spark.tables.errors import DatabaseUnreachable
from penstock.spark.tables.postgres_errors import address, one_line

FULL, DEFAULT, BY_INDEX = "f", "d", "i"  # replica identities

EXISTING = """
    SELECT n.nspname || '.' || c.relname
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname || '.' || c.relname = ANY(%s)
"""
PUBLISHED = """
    SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s
"""
# Generated columns are not in the log.
COLUMNS = """
    SELECT p.schemaname || '.' || p.tablename, a.attname::text, a.atttypid::bigint, a.atttypmod
    FROM pg_publication_tables AS p
    JOIN pg_namespace AS n ON n.nspname = p.schemaname
    JOIN pg_class AS c ON c.relname = p.tablename AND c.relnamespace = n.oid
    JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE p.pubname = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
        AND a.attname = ANY(p.attnames)
    ORDER BY 1, a.attnum
"""
PRIMARY_KEYS = """
    SELECT p.schemaname || '.' || p.tablename, array_agg(a.attname::text ORDER BY k.place),
        min(c.relreplident::text), bool_and(i.indisreplident)
    FROM pg_publication_tables AS p
    JOIN pg_namespace AS n ON n.nspname = p.schemaname
    JOIN pg_class AS c ON c.relname = p.tablename AND c.relnamespace = n.oid
    JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number
    WHERE p.pubname = %s GROUP BY 1
"""
PRIMARY_KEY = """
    SELECT a.attname::text
    FROM pg_index AS i
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = to_regclass(%s) AND i.indisprimary ORDER BY k.place
"""
TYPES = "SELECT oid::bigint, format_type(oid, NULL) FROM pg_type"
DATABASE = """
    SELECT system_identifier || '/' || current_database() FROM pg_control_system()
"""
# A commit of our own, so that the position is the end of a record, and on disk.
LOG_END = "SELECT pg_logical_emit_message(true, 'penstock', '')::text"

Connection = psycopg.AsyncConnection[tuple[object, ...]]


class UnknownTable(PenstockError):
    """The database has no such table."""


class NoPrimaryKey(PenstockError):
    """The changes of a table without one can't be told apart."""


class WrongReplicaIdentity(PenstockError):
    """The log does not name the rows of a table by their primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    columns: tuple[Column, ...]
    types: tuple[int, ...]  # of the columns: PostgreSQL's numbers
    key: tuple[str, ...]  # the columns of the primary key


async def connected(dsn: str) -> Connection:
    try:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(f"{address(dsn)}: {one_line(error)}") from error
    await connection.execute("SET synchronous_commit = on")
    return connection


async def check_existing(connection: Connection, source: Source) -> None:
    there = {str(one) for (one,) in await _rows(connection, EXISTING, [list(source.topics)])}
    lacking = [table for table in source.topics if table not in there]
    if lacking:
        raise UnknownTable(f"the database has no table {', '.join(lacking)}")


async def unpublished(connection: Connection, source: Source) -> list[str]:
    """The tables whose changes are not sent: those to be added, and those that were dropped or
    renamed, if others have their names now.
    """
    published = {str(one) for (one,) in await _rows(connection, PUBLISHED, [source.name])}
    return [table for table in source.topics if table not in published]


async def publish(connection: Connection, source: Source) -> None:
    """Makes the publication where it is missing, and adds the tables that it lacks."""
    name = sql.Identifier(source.name)
    found = await connection.execute(
        "SELECT pubtruncate FROM pg_publication WHERE pubname = %s", [source.name]
    )
    row = await found.fetchone()
    if row is None:
        await connection.execute(
            sql.SQL(
                "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
            ).format(name, _listed(list(source.topics)))
        )
        return
    if not row[0]:
        await connection.execute(
            sql.SQL(
                "ALTER PUBLICATION {} SET (publish = 'insert, update, delete, truncate')"
            ).format(name)
        )
    lacking = await unpublished(connection, source)
    if lacking:
        await connection.execute(
            sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, _listed(lacking))
        )


async def forms_of(
    connection: Connection, source: Source, types: dict[int, str]
) -> dict[str, TableForm]:
    """Columns and key of each captured table, as they are now."""
    keys = {}
    for table, names, identity, is_identity in await _rows(connection, PRIMARY_KEYS, [source.name]):
        assert isinstance(names, list)
        keys[str(table)] = tuple(map(str, names))
        right = identity in (FULL, DEFAULT) or (identity == BY_INDEX and is_identity)
        if table in source.topics and not right:
            raise WrongReplicaIdentity(
                f"{table}: the log does not name its rows by the primary key: "
                f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT, or FULL"
            )
    columns: dict[str, list[tuple[str, int, int]]] = {}
    for table, name, kind, modifier in await _rows(connection, COLUMNS, [source.name]):
        assert isinstance(kind, int) and isinstance(modifier, int)
        columns.setdefault(str(table), []).append((str(name), kind, modifier))
    for table in source.topics:
        if table not in keys:
            raise NoPrimaryKey(f"{table} has no primary key: its changes can't be captured")
    return {
        table: TableForm(
            columns=tuple(column_of(*column, types) for column in columns[table]),
            types=tuple(kind for _, kind, _ in columns[table]),
            key=keys[table],
        )
        for table in source.topics
    }


async def primary_key(connection: Connection, table: str) -> tuple[str, ...] | None:
    """The columns of a table's primary key; None: there is no such table any more, or no key."""
    name = identifier(table).as_string(connection)
    found = await _rows(connection, PRIMARY_KEY, [name])
    return tuple(str(column) for (column,) in found) or None


async def type_names(connection: Connection) -> dict[int, str]:
    found = {}
    for number, name in await _rows(connection, TYPES, []):
        assert isinstance(number, int)
        found[number] = str(name)
    return found


async def text(connection: Connection, statement: LiteralString) -> str:
    [[found]] = await _rows(connection, statement, [])
    return str(found)


def identifier(table: str) -> sql.Identifier:
    schema, _, name = table.partition(".")
    return sql.Identifier(schema, name)


async def _rows(
    connection: Connection, statement: LiteralString, values: list[object]
) -> list[tuple[object, ...]]:
    return await (await connection.execute(statement, values)).fetchall()


def _listed(tables: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(identifier, tables))

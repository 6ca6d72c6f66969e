"""Changes of tables of PostgreSQL into topics, each once, by logical decoding.

The server keeps its log for a slot; `pgoutput` comes with every server, whose `wal_level` must be
`logical`. A round:

    peek       whole transactions of the database, which stay in the slot
    write      their changes and the position of the last one, in one transaction of the cluster
    advance    the slot, so that the server may forget them

Whoever dies after `write` finds the position in the cluster and passes over what is there already;
whoever dies before has written nothing. The transactional id keeps a second one of the same name
from writing: the newer fences the older, and reads the position only then.

The first round is another one: where the cluster has no position yet, a new slot is made, and the
rows that the tables had at that moment are written with its position. A slot is one cluster's, and
has that one's id in its name: others on the same database have their own. What a record looks like,
`record` says. TRUNCATE is not told.
"""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from penstock.client.consume.compacted_topic import last_values
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ConnectionLost, TimedOut, Unreachable
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import PenstockError
from penstock.spark.connection import connect, run
from penstock.spark.options import ConnectionOptions
from penstock.spark.pipelines.cdc.pgoutput import (
    Change,
    Transaction,
    lsn_text,
    transactions,
)
from penstock.spark.pipelines.cdc.record import (
    Position,
    decode_position,
    encode_position,
    headers_of,
    key_of,
    value_of,
)
from penstock.spark.pipelines.cdc.snapshot import new_slot, rows_of
from penstock.spark.tables.errors import DatabaseUnreachable
from penstock.spark.tables.postgres_table import address, one_line

ROUND_CHANGES_MAX = 5_000  # a single transaction of the database may have more
TRANSACTION_MS_MAX = 900_000  # as much as brokers allow by default: the rows of a large table
PAUSE_SECONDS = 0.2
SLOT_ATTEMPTS_MAX = 50
TROUBLE_PAUSE_SECONDS = 2.0

# What goes away by itself.
AWAY = (Unreachable, ConnectionLost, TimedOut, DatabaseUnreachable, psycopg.OperationalError)

LOG = logging.getLogger(__name__)
Connection = psycopg.AsyncConnection[tuple[object, ...]]

PRIMARY_KEYS = """
    SELECT n.nspname || '.' || c.relname, array_agg(a.attname::text ORDER BY k.place)
    FROM pg_publication_tables AS p
    JOIN pg_namespace AS n ON n.nspname = p.schemaname
    JOIN pg_class AS c ON c.relname = p.tablename AND c.relnamespace = n.oid
    JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number
    WHERE p.pubname = %s GROUP BY 1
"""
PEEK = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(
        %(slot)s, %(until)s, %(count)s, 'proto_version', '1', 'publication_names', %(publication)s)
"""
DROP = """
    SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
    WHERE slot_name = %(slot)s AND database = current_database()
"""
LOG_END = "SELECT pg_current_wal_lsn()::text"
DATABASE = """
    SELECT system_identifier || '/' || current_database() FROM pg_control_system()
"""
ADVANCE = "SELECT pg_replication_slot_advance(%(slot)s, %(until)s)"


class NoPrimaryKey(PenstockError):
    """The changes of a table without one can't be told apart."""


class SlotLost(PenstockError):
    """The database has forgotten what was not yet captured."""


class SlotInUse(PenstockError):
    """Somebody else has been reading the slot for too long, or another database has it."""


class OtherDatabase(PenstockError):
    """The cluster has captured the tables of another database under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    dsn: str
    name: str  # of the publication, and how slots begin; lower case, digits and _
    topics: Mapping[str, str]  # schema.table to topic
    positions: str  # a compacted topic of one partition: how far each source is captured

    @property
    def transactional_id(self) -> str:
        return f"cdc.{self.name}"


def capture(source: Source, bootstrap: str, goes_on: Callable[[], bool] = lambda: False) -> int:
    """Captures what there is, and then for as long as `goes_on` says; returns how many changes."""
    return run(_capture(source, bootstrap, goes_on))


def capture_beside(
    source: Source, bootstrap: str, *, goes_on: Callable[[], bool], ended: Callable[[], None]
) -> threading.Thread:
    """The same in a thread of its own, which bears with a database or a cluster that is away. Any
    other trouble ends it; `ended` is called when it ends, for whatever reason.
    """

    def work() -> None:
        try:
            while goes_on():
                try:
                    capture(source, bootstrap, goes_on)
                except AWAY as error:
                    LOG.warning("capture waits name=%s error=%s", source.name, error)
                    time.sleep(TROUBLE_PAUSE_SECONDS)
        except Exception as error:
            LOG.error("capture ended name=%s error=%s", source.name, error)
            raise
        finally:
            ended()

    thread = threading.Thread(target=work, name=f"capture-{source.name}", daemon=True)
    thread.start()
    return thread


async def _capture(source: Source, bootstrap: str, goes_on: Callable[[], bool]) -> int:
    captured = 0
    async with (
        await _connected(source.dsn) as connection,
        connect(ConnectionOptions(bootstrap=bootstrap)) as cluster,
    ):
        keys = await _publish(connection, source)
        rules = TransactionRules(timeout_ms=TRANSACTION_MS_MAX)
        async with TransactionalProducer(cluster, source.transactional_id, rules=rules) as producer:
            view = await cluster.need([source.positions])
            slot = slot_name(source, view.cluster_id or "")
            database = await _text(connection, DATABASE)
            known = await last_position(cluster, source)
            if known is None:
                known = await _begin(connection, producer, source, keys, slot, database)
            elif known.database != database:
                raise OtherDatabase(
                    f"topic {source.positions} holds positions of another database (system/name "
                    f"{known.database}) than {database}: give this one topics of its own"
                )
            position = known.lsn
            # What comes later than this is for the next look, so a look has an end.
            until = await _text(connection, LOG_END)
            while True:
                seen = transactions(await _peek(connection, source, slot, until), keys)
                fresh = [one for one in seen if one.commit_lsn > position]
                if fresh:
                    await _write(producer, source, fresh, database)
                    position = fresh[-1].commit_lsn
                    captured += sum(len(one.changes) for one in fresh)
                # All of it is in the cluster now, or none of it is for us.
                await _advance(connection, slot, lsn_text(seen[-1].end_lsn) if seen else until)
                if seen:
                    continue
                if not goes_on():
                    return captured
                await asyncio.sleep(PAUSE_SECONDS)
                until = await _text(connection, LOG_END)


def slot_name(source: Source, cluster_id: str) -> str:
    """A name that PostgreSQL takes: cluster ids have characters that it does not."""
    return f"{source.name}_{hashlib.sha256(cluster_id.encode()).hexdigest()[:8]}"


async def last_position(cluster: Cluster, source: Source) -> Position | None:
    """The commit up to which the cluster has everything. Ask as the only one who writes."""
    found = (await last_values(cluster, source.positions)).get(source.name.encode())
    return None if found is None else decode_position(found)


async def _begin(
    connection: Connection,
    producer: TransactionalProducer,
    source: Source,
    keys: Mapping[str, tuple[str, ...]],
    slot: str,
    database: str,
) -> Position:
    """The rows that are there, and the position that goes with them; returns that position."""
    # A slot without a position in its cluster is of somebody who died before he had written it.
    await _from_slot(connection, DROP, {"slot": slot})
    try:
        async with new_slot(source.dsn, slot) as made, producer.transaction():
            step = 0
            async for change in rows_of(source.dsn, made, source.topics, keys):
                await _send(producer, source, change, made.position, step, None)
                step += 1
            position = Position(lsn=made.position, database=database)
            await _send_position(producer, source, position)
    except psycopg.errors.DuplicateObject as error:
        raise SlotInUse(f"slot {slot!r} is of another database of this server") from error
    return position


async def _write(
    producer: TransactionalProducer, source: Source, fresh: list[Transaction], database: str
) -> None:
    async with producer.transaction():
        for one in fresh:
            for step, change in enumerate(one.changes):
                await _send(producer, source, change, one.commit_lsn, step, one.committed_ms)
        position = Position(lsn=fresh[-1].commit_lsn, database=database)
        await _send_position(producer, source, position)


async def _send(
    producer: TransactionalProducer,
    source: Source,
    change: Change,
    position: int,
    step: int,
    timestamp_ms: int | None,
) -> None:
    await producer.send(
        source.topics[change.table],
        value_of(change),
        key=key_of(change),
        headers=headers_of(change, position=position, step=step),
        timestamp_ms=timestamp_ms,
    )


async def _send_position(
    producer: TransactionalProducer, source: Source, position: Position
) -> None:
    value = encode_position(position)
    await producer.send(source.positions, value, key=source.name.encode(), partition=0)


async def _connected(dsn: str) -> Connection:
    try:
        return await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(f"{address(dsn)}: {one_line(error)}") from error


async def _publish(connection: Connection, source: Source) -> dict[str, tuple[str, ...]]:
    """Makes the publication where it is missing; returns the primary keys of the tables."""
    tables = [sql.Identifier(*table.split(".")) for table in source.topics]
    exists = await connection.execute(
        "SELECT 1 FROM pg_publication WHERE pubname = %s", [source.name]
    )
    if await exists.fetchone() is None:
        await connection.execute(
            sql.SQL(
                "CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert, update, delete')"
            ).format(sql.Identifier(source.name), sql.SQL(", ").join(tables))
        )
    found = await connection.execute(PRIMARY_KEYS, [source.name])
    keys = {str(table): tuple(map(str, names)) for table, names in await found.fetchall()}  # type: ignore[call-overload]
    for table in source.topics:
        if table not in keys:
            raise NoPrimaryKey(f"{table} has no primary key: its changes can't be captured")
    return keys


async def _text(connection: Connection, statement: LiteralString) -> str:
    found = await (await connection.execute(statement)).fetchone()
    assert found is not None
    return str(found[0])


async def _peek(connection: Connection, source: Source, slot: str, until: str) -> list[bytes]:
    asked = {
        "slot": slot,
        "publication": source.name,
        "until": until,
        "count": ROUND_CHANGES_MAX,
    }
    return [data for (data,) in await _from_slot(connection, PEEK, asked)]  # type: ignore[misc] # bytea is bytes


async def _advance(connection: Connection, slot: str, until: str) -> None:
    await _from_slot(connection, ADVANCE, {"slot": slot, "until": until})


async def _from_slot(
    connection: Connection, statement: LiteralString, asked: dict[str, object]
) -> list[tuple[object, ...]]:
    """A slot has one user at a time, and the server takes a moment to see that one has died."""
    for attempt in range(SLOT_ATTEMPTS_MAX):
        try:
            return await (await connection.execute(statement, asked, binary=True)).fetchall()
        except psycopg.errors.UndefinedObject as error:
            raise SlotLost(
                f"slot {asked['slot']!r} is gone, and with it the changes since the last capture: "
                "start over with other topics"
            ) from error
        except psycopg.errors.ObjectInUse as error:
            if attempt == SLOT_ATTEMPTS_MAX - 1:
                raise SlotInUse(f"another process captures from slot {asked['slot']!r}") from error
            await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("unreachable")

"""Changes of tables of PostgreSQL into topics, each once, by logical decoding.

The server keeps its log for a slot and sends it as it is written; `pgoutput` comes with every
server, whose `wal_level` must be `logical`.

    receive    transactions of the database, from the slot
    write      their changes and the position of the last one, in one transaction of the cluster
    confirm    the position to the server, which may then forget its log up to there

A capture that dies after `write` finds the position in the cluster and passes over what is there
already; one that dies before has written nothing. The transactional id keeps a second one of the
same name from writing: the newer fences the older, and reads the position only then. The older may
know fewer tables, so it confirms nothing before a transaction has shown that no newer one began.

A table that the cluster has no position of begins with its rows as they are: for the first tables a
new slot is made, for later ones a temporary one beside it, whose snapshot says from which
transaction on the table's changes count. A slot belongs to one cluster and has that one's id in its
name: others on the same database have their own. `record` says what records look like.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import psycopg

from penstock.client.consume.compacted_topic import (
    FIRST,
    committed_ends,
    last_values,
    live_keys,
    read_range,
)
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import (
    AbortOnly,
    BufferFull,
    ConnectionLost,
    TimedOut,
    Unreachable,
)
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import PenstockError
from penstock.spark.connection import connect, run
from penstock.spark.options import ConnectionOptions
from penstock.spark.pipelines.cdc.change_writer import ChangeWriter, check_key, send_position
from penstock.spark.pipelines.cdc.database import (
    DATABASE,
    LOG_END,
    Connection,
    TableForm,
    check_existing,
    connected,
    forms_of,
    publish,
    text,
    type_names,
    unpublished,
)
from penstock.spark.pipelines.cdc.pgoutput import (
    CapturedTable,
    Decoder,
    Kind,
    lsn_number,
    lsn_text,
)
from penstock.spark.pipelines.cdc.record import (
    KnownSchema,
    Position,
    decode_position,
    decode_schema,
    encode_schema,
    headers_of,
    key_of,
    value_of,
)
from penstock.spark.pipelines.cdc.replication_stream import (
    SLOT_ATTEMPTS_MAX,
    SLOT_PAUSE_SECONDS,
    Reached,
    ReplicationStream,
    SlotInUse,
    replication_stream,
)
from penstock.spark.pipelines.cdc.snapshot import new_slot, rows_of
from penstock.spark.pipelines.cdc.source import Source, slot_name
from penstock.spark.tables.errors import DatabaseUnreachable

TRANSACTION_MS_MAX = 900_000  # as much as brokers allow by default: the rows of a large table
WAIT_SECONDS = 0.2
PROOF_SECONDS = 5.0  # between transactions that only show that no newer capture has begun
TROUBLE_PAUSE_SECONDS = 2.0
RULES = TransactionRules(timeout_ms=TRANSACTION_MS_MAX)

# What goes away by itself.
AWAY = (
    Unreachable,
    ConnectionLost,
    TimedOut,
    BufferFull,
    DatabaseUnreachable,
    SlotInUse,
    psycopg.OperationalError,
)

DROP = """
    SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
    WHERE slot_name = %(slot)s AND database = current_database()
"""

LOG = logging.getLogger(__name__)


class OlderDatabase(PenstockError):
    """The database's log ends before what was captured: its changes would be passed over."""


class OtherDatabase(PenstockError):
    """The cluster has captured the tables of another database under this name, or another database
    of the server has the slot.
    """


def capture(
    source: Source,
    bootstrap: str,
    goes_on: Callable[[], bool] = lambda: False,
    *,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Captures what there is, and then for as long as `goes_on` says; returns how many changes.
    `settings` are those of the connection to the brokers, such as `security.protocol`.
    """
    brokers = ConnectionOptions(bootstrap=bootstrap, kafka=tuple((settings or {}).items()))
    return run(_capture(source, brokers, goes_on))


def keep_capturing(
    source: Source,
    bootstrap: str,
    goes_on: Callable[[], bool],
    *,
    settings: Mapping[str, str] | None = None,
) -> None:
    """The same, and waits for a database or a cluster that is away, or a slot that is in use."""
    while goes_on():
        try:
            capture(source, bootstrap, goes_on, settings=settings)
        except (*AWAY, AbortOnly) as error:
            if isinstance(error, AbortOnly) and not isinstance(error.reason, AWAY):
                raise
            LOG.warning("capture waits name=%s error=%s", source.name, " ".join(str(error).split()))
            time.sleep(TROUBLE_PAUSE_SECONDS)


def capture_beside(
    source: Source,
    bootstrap: str,
    *,
    goes_on: Callable[[], bool],
    ended: Callable[[], None],
    settings: Mapping[str, str] | None = None,
) -> threading.Thread:
    """The same in a thread of its own. `ended` is called when it ends, for whatever reason."""

    def work() -> None:
        try:
            keep_capturing(source, bootstrap, goes_on, settings=settings)
        except Exception as error:
            LOG.error("capture ended name=%s error=%s", source.name, error)
            raise
        finally:
            ended()

    thread = threading.Thread(target=work, name=f"capture-{source.name}", daemon=True)
    thread.start()
    return thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a capture goes on from: every table has its rows in its topic."""

    position: Position
    schemas: Mapping[str, KnownSchema]
    forms: Mapping[str, TableForm]
    types: Mapping[int, str]


async def _capture(source: Source, brokers: ConnectionOptions, goes_on: Callable[[], bool]) -> int:
    async with (
        await connected(source.dsn) as connection,
        connect(brokers) as cluster,
    ):
        await check_existing(connection, source)
        async with TransactionalProducer(cluster, source.transactional_id, rules=RULES) as producer:
            view = await cluster.need([source.positions])
            slot = slot_name(source, view.cluster_id or "")
            begun = await _begin(cluster, producer, connection, source, slot)
            writer = ChangeWriter(
                cluster,
                producer,
                connection,
                source,
                position=begun.position,
                schemas=begun.schemas,
            )
            # What comes later than this is for the next look, so a look has an end.
            until = lsn_number(await text(connection, LOG_END))
            async with replication_stream(source.dsn, slot=slot, publication=source.name) as stream:
                await _follow(stream, _decoder(begun), writer, until, goes_on)
            return writer.captured


async def _follow(
    stream: ReplicationStream,
    decoder: Decoder,
    writer: ChangeWriter,
    until: int,
    goes_on: Callable[[], bool],
) -> None:
    """Writes what the server sends, until all up to `until` is written and nobody goes on."""
    clock = asyncio.get_running_loop().time
    reached, proof_due = 0, clock() + PROOF_SECONDS
    while reached < until or goes_on():
        sent = await stream.next(0 if writer.is_open and writer.is_between else WAIT_SECONDS)
        match sent:
            case bytes():
                for event in decoder.read(sent):
                    await writer.take(event)
                if writer.is_full:
                    await _commit(stream, writer)
            case Reached(lsn) if writer.is_between:
                # All before it is in the cluster after the commit, or not for us.
                is_newest = await _commit(stream, writer)
                is_due = sent.is_urgent or clock() >= proof_due or reached < until <= lsn
                if not is_newest and is_due and not stream.is_confirmed(lsn):
                    await writer.prove_newest()
                    is_newest, proof_due = True, clock() + PROOF_SECONDS
                if is_newest:
                    await stream.confirm(lsn)
                reached = lsn
            case Reached():
                pass
            case None if writer.is_between and writer.is_open:
                await _commit(stream, writer)
            case None if reached < until:
                await stream.ask()
            case None:
                pass


async def _commit(stream: ReplicationStream, writer: ChangeWriter) -> bool:
    """Whether anything was committed."""
    end_lsn = await writer.commit()
    if end_lsn is not None:
        await stream.confirm(end_lsn)
    return end_lsn is not None


def _decoder(begun: Begun) -> Decoder:
    tables = {
        table: CapturedTable(key=begun.forms[table].key, after_lsn=max(lsn, begun.position.lsn))
        for table, lsn in _tables_of(begun.position).items()
    }
    return Decoder(tables, begun.types)


async def last_position(cluster: Cluster, source: Source) -> Position | None:
    """The commit up to which the cluster has everything. Ask as the only one who writes."""
    found = (await last_values(cluster, source.positions)).get(source.name.encode())
    return None if found is None else decode_position(found)


async def last_schemas(cluster: Cluster, source: Source) -> dict[str, KnownSchema]:
    """How each table looked when its last record was written."""
    found: dict[str, KnownSchema] = {}

    def take(record: ConsumedRecord) -> None:
        schema = None if record.value is None else decode_schema(record.value)
        if schema is not None:
            found[schema[0]] = schema[1]

    ends = await committed_ends(cluster, source.events)
    await read_range(cluster, dict.fromkeys(ends, FIRST), ends, take)
    return found


async def _begin(
    cluster: Cluster,
    producer: TransactionalProducer,
    connection: Connection,
    source: Source,
    slot: str,
) -> Begun:
    database = await text(connection, DATABASE)
    known = await last_position(cluster, source)
    if known is not None:
        if known.database != database:
            raise OtherDatabase(
                f"topic {source.positions} holds positions of another database (system/name "
                f"{known.database}) than {database}: give this one topics of its own"
            )
        await _check_not_older(connection, source, known)
        known = await _forget_tables(producer, connection, source, known)
    await publish(connection, source)
    types = await type_names(connection)
    forms = await forms_of(connection, source, types)
    schemas = {} if known is None else await last_schemas(cluster, source)
    position, after_lsns = known, _tables_of(known)
    for table in after_lsns:
        now = KnownSchema(columns=forms[table].columns, key=forms[table].key)
        check_key(table, schemas.setdefault(table, now), now.key)
    fresh = {table: form for table, form in forms.items() if table not in after_lsns}
    if position is None or fresh:
        position = await _write_rows(
            cluster, producer, connection, source, slot, fresh, known, database
        )
    for table, form in fresh.items():
        schemas[table] = KnownSchema(columns=form.columns, key=form.key)
    return Begun(position=position, schemas=schemas, forms=forms, types=types)


async def _check_not_older(connection: Connection, source: Source, known: Position) -> None:
    captured = max([known.lsn, *(known.tables or {}).values()])
    end = await text(connection, LOG_END)
    if captured > lsn_number(end):
        raise OlderDatabase(
            f"the log of the database ends at {end}, and topic {source.positions} has captured it "
            f"up to {lsn_text(captured)}: it was set back, as by a backup. Start over with other "
            "topics"
        )


async def _forget_tables(
    producer: TransactionalProducer, connection: Connection, source: Source, known: Position
) -> Position:
    """The position without the tables that are not captured any more, and without those that the
    publication has lost: their changes since are unknown. It is written before the publication has
    them again, so a capture that dies in between takes them for new as well.
    """
    lost = {*await unpublished(connection, source)}
    before = dict.fromkeys(source.topics, known.lsn) if known.tables is None else known.tables
    tables = {
        table: lsn for table, lsn in before.items() if table in source.topics and table not in lost
    }
    if tables == known.tables:
        return known
    position = replace(known, tables=tables)
    async with producer.transaction():
        await send_position(producer, source, position)
    return position


def _tables_of(position: Position | None) -> Mapping[str, int]:
    if position is None:
        return {}
    assert position.tables is not None
    return position.tables


async def _write_rows(
    cluster: Cluster,
    producer: TransactionalProducer,
    connection: Connection,
    source: Source,
    slot: str,
    fresh: Mapping[str, TableForm],
    known: Position | None,
    database: str,
) -> Position:
    """The rows that tables have, a tombstone for each other row that their topics have from an
    earlier time, and the position that goes with them; returns that position.
    """
    name = slot if known is None else f"{slot}_rows"
    # A slot without a position in its cluster is of a capture that died before it wrote one.
    await _drop(connection, name)
    topics = [source.topics[table] for table in fresh]
    gone = {topic: await live_keys(cluster, topic) for topic in topics}
    try:
        async with (
            new_slot(source.dsn, name, temporary=known is not None) as made,
            producer.transaction(),
        ):
            step = 0

            async def send(topic: str, key: bytes, value: bytes | None, kind: Kind) -> None:
                nonlocal step
                headers = headers_of(kind, position=made.position, step=step)
                await producer.send(topic, value, key=key, headers=headers)
                step += 1

            for table, form in fresh.items():
                schema = encode_schema(table, KnownSchema(columns=form.columns, key=form.key))
                await send(source.events, table.encode(), schema, Kind.SCHEMA)
            async for change in rows_of(source.dsn, made, fresh):
                topic, key = source.topics[change.table], key_of(change)
                await send(topic, key, value_of(change), change.kind)
                gone[topic].discard(key)
            for topic, keys in gone.items():
                for key in sorted(keys):
                    await send(topic, key, None, Kind.DELETE)
            position = Position(
                lsn=made.position if known is None else known.lsn,
                database=database,
                tables={**_tables_of(known), **dict.fromkeys(fresh, made.position)},
            )
            await send_position(producer, source, position)
    except psycopg.errors.DuplicateObject as error:
        raise OtherDatabase(f"slot {name!r} is of another database of this server") from error
    return position


async def _drop(connection: Connection, slot: str) -> None:
    """The server takes a moment to notice that a slot's reader has died."""
    for attempt in range(SLOT_ATTEMPTS_MAX):
        try:
            await connection.execute(DROP, {"slot": slot})
            return
        except psycopg.errors.ObjectInUse as error:
            if attempt == SLOT_ATTEMPTS_MAX - 1:
                raise SlotInUse(f"another process captures from slot {slot!r}") from error
            await asyncio.sleep(SLOT_PAUSE_SECONDS)

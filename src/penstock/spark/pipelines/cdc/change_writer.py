"""Events of the database's log into topics, by transactions of the cluster.

A transaction of the cluster holds whole transactions of the database, one or several, and the
position after them. It is opened by the first record and stays open while more is at hand, so a
large transaction of the database passes through without being held in memory.

TRUNCATE names no rows. Readers of a compacted topic need a tombstone for each, so the topic is
read for the keys that it has; an event tells of it as well.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from penstock.client.consume.compacted_topic import live_keys
from penstock.client.network.cluster import Cluster
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.error import PenstockError
from penstock.records.record import Headers
from penstock.spark.pipelines.cdc.database import Connection, primary_key
from penstock.spark.pipelines.cdc.pgoutput import (
    Begin,
    Change,
    Commit,
    Event,
    Kind,
    Schema,
    Truncate,
)
from penstock.spark.pipelines.cdc.record import (
    KnownSchema,
    Position,
    encode_position,
    encode_schema,
    encode_truncate,
    headers_of,
    key_of,
    value_of,
)
from penstock.spark.pipelines.cdc.source import Source

ROUND_CHANGES_MAX = 5_000  # a single transaction of the database may have more

LOG = logging.getLogger(__name__)


class KeyChanged(PenstockError):
    """A table has another primary key than the records of its topic."""


class ChangeWriter:
    def __init__(
        self,
        cluster: Cluster,
        producer: TransactionalProducer,
        connection: Connection,
        source: Source,
        *,
        position: Position,
        schemas: Mapping[str, KnownSchema],
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._connection = connection
        self._source = source
        self._written = position  # what the cluster has
        self._schemas = dict(schemas)
        self._begin: Begin | None = None  # of the transaction of the database under way
        self._step = 0
        self._commit: Commit | None = None  # the last one taken
        self._open_changes = 0  # in the transaction of the cluster
        self._is_open = False
        # Which keys the records of the open transaction leave in each topic, and which not.
        self._open_keys: dict[str, dict[bytes, bool]] = {}
        self.captured = 0

    @property
    def is_between(self) -> bool:
        """No transaction of the database is under way."""
        return self._begin is None

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_full(self) -> bool:
        return self.is_between and self._open_changes >= ROUND_CHANGES_MAX

    async def take(self, event: Event) -> None:
        match event:
            case Begin():
                self._begin, self._step = event, 0
            case Change():
                await self._send_change(event)
            case Schema():
                await self._tell_schema(event)
            case Truncate():
                await self._truncate(event.table)
            case Commit():
                self._begin, self._commit = None, event
            case _:
                assert_never(event)

    async def commit(self) -> int | None:
        """Commits what is open, and returns where the rest of the log begins; None: nothing is."""
        assert self.is_between
        commit, self._commit = self._commit, None
        if not self._is_open:
            return None
        assert commit is not None
        await self._commit_at(replace(self._written, lsn=commit.commit_lsn))
        self.captured += self._open_changes
        self._open_changes = 0
        self._open_keys.clear()
        return commit.end_lsn

    async def prove_newest(self) -> None:
        """A transaction that changes nothing: fails if a newer capture of this name has begun."""
        assert not self._is_open
        await self._open()
        await self._commit_at(self._written)

    async def _commit_at(self, position: Position) -> None:
        await send_position(self._producer, self._source, position)
        await self._producer.commit()
        self._written = position
        self._is_open = False

    async def _send_change(self, change: Change) -> None:
        topic, key = self._source.topics[change.table], key_of(change)
        await self._send(topic, key, value_of(change), change.kind)
        self._open_keys.setdefault(topic, {})[key] = change.row is not None
        self._open_changes += 1

    async def _truncate(self, table: str) -> None:
        topic = self._source.topics[table]
        here = self._open_keys.setdefault(topic, {})
        await self._await_last_commit()
        # Our own open transaction holds the end of what is committed back, so nothing is missed.
        keys = {one for one in await live_keys(self._cluster, topic) if here.get(one, True)}
        keys |= {one for one, is_left in here.items() if is_left}
        for key in sorted(keys):
            await self._send(topic, key, None, Kind.TRUNCATE)
            here[key] = False
        self._open_changes += len(keys)
        LOG.warning("table=%s was truncated: topic=%s tombstones=%d", table, topic, len(keys))
        value = encode_truncate(table, rows=len(keys))
        await self._send(self._source.events, table.encode(), value, Kind.TRUNCATE)

    async def _await_last_commit(self) -> None:
        """A commit is answered when it is decided, and readers see its records a moment later. The
        next transaction takes no record before that, so one that is delivered says that they do.
        """
        await self._open()
        await send_position(self._producer, self._source, self._written)
        await self._producer.flush()

    async def _tell_schema(self, schema: Schema) -> None:
        table, known = schema.table, self._schemas[schema.table]
        if schema.columns == known.columns:
            return
        check_key(table, known, await primary_key(self._connection, table))
        LOG.warning(
            "table=%s has other columns from position=%d on: %s",
            table,
            self._position,
            ", ".join(f"{column.name} {column.type}" for column in schema.columns),
        )
        now = KnownSchema(columns=schema.columns, key=known.key)
        await self._send(
            self._source.events, table.encode(), encode_schema(table, now), Kind.SCHEMA
        )
        self._schemas[table] = now

    @property
    def _position(self) -> int:
        assert self._begin is not None
        return self._begin.commit_lsn

    async def _send(self, topic: str, key: bytes, value: bytes | None, kind: Kind) -> None:
        assert self._begin is not None
        await self._open()
        headers: Headers = headers_of(kind, position=self._position, step=self._step)
        await self._producer.send(
            topic, value, key=key, headers=headers, timestamp_ms=self._begin.committed_ms
        )
        self._step += 1

    async def _open(self) -> None:
        if not self._is_open:
            await self._producer.begin()
            self._is_open = True


def check_key(table: str, known: KnownSchema, key: tuple[str, ...] | None) -> None:
    """None: the table is gone by now, and what the log still has of it is by the known key."""
    if key is not None and key != known.key:
        raise KeyChanged(
            f"the primary key of {table} was ({', '.join(known.key)}) and is now"
            f" ({', '.join(key)}): its topic has records by the old one. Capture the table anew,"
            " with another prefix"
        )


async def send_position(
    producer: TransactionalProducer, source: Source, position: Position
) -> None:
    value = encode_position(position)
    await producer.send(source.positions, value, key=source.name.encode(), partition=0)

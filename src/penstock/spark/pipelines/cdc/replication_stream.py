"""The log of a slot, as the server sends it while it is written (START_REPLICATION).

    w  start u64, end u64, time i64, message                        a message of pgoutput
    k  end u64, time i64, reply u8                                  all up to `end` has been sent
    r  written u64, flushed u64, applied u64, time i64, reply u8    to the server: stored up to here

The server keeps its log from `flushed` on, and sends it again in the next connection: `confirm`
moves it, and must be called only with what is stored elsewhere. A server ends a connection from
which it hears nothing for `wal_sender_timeout`, so it is told of the position every few seconds,
also while the reader does something else, such as writing tombstones for a large table.

psycopg has no function for this; its `pq` has libpq's own (docs/adr/0049).
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg import pq, sql
from psycopg.errors import error_from_result

from penstock.model.error import PenstockError

SLOT_ATTEMPTS_MAX = 50
SLOT_PAUSE_SECONDS = 0.2
ASK_SECONDS = 10  # of silence, before a server is asked whether it is there
SERVER_SECONDS_MAX = 60  # without an answer, or room for a question
DATA_MESSAGE = ord("w")
DATA = struct.Struct(">QQq")
ALIVE = struct.Struct(">QqB")
STATUS = struct.Struct(">cQQQqB")

Connection = psycopg.AsyncConnection[tuple[object, ...]]


class SlotLost(PenstockError):
    """The database has forgotten what was not yet captured."""


class SlotInUse(PenstockError):
    """Another process reads the slot, or did so until a moment ago: a server notices that the
    machine of a reader is gone after `wal_sender_timeout`, a minute by default.
    """


@dataclass(frozen=True, slots=True)
class Reached:
    """All that was committed up to here has been sent, unless a transaction is being sent."""

    lsn: int
    is_urgent: bool = False  # the server waits for it to be confirmed, such as one that stops


class ReplicationStream:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postgres = connection.pgconn
        self._confirmed_lsn = 0
        self._heard = asyncio.get_running_loop().time()  # the last message
        self._unanswered: float | None = None  # since when the server has been asked in vain
        self._sending = asyncio.Lock()

    async def next(self, wait_seconds: float) -> bytes | Reached | None:
        """The next message of pgoutput, or how far the server is; None after the wait. A server
        that is asked and says nothing for a minute is away.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        taken_in = False
        while True:
            length, data = self._postgres.get_copy_data(1)
            if length < 0:
                raise self._ended()
            if length == 0:
                wait_seconds = deadline - loop.time()
                if taken_in and not await _readable(self._postgres.socket, wait_seconds):
                    await self._check_alive()
                    return None
                self._postgres.consume_input()  # what has come by now, without waiting
                taken_in = True
                continue
            self._heard, self._unanswered = loop.time(), None
            if data[0] == DATA_MESSAGE:
                return bytes(data[1 + DATA.size :])
            lsn, _, wants_reply = ALIVE.unpack_from(data, 1)
            if wants_reply:
                await self._reply()
            return Reached(lsn, is_urgent=bool(wants_reply))

    def is_confirmed(self, lsn: int) -> bool:
        return lsn <= self._confirmed_lsn

    async def confirm(self, lsn: int) -> None:
        """The server may forget everything up to here."""
        if not self.is_confirmed(lsn):
            self._confirmed_lsn = lsn
            await self._reply()

    async def ask(self) -> None:
        """Makes the server say how far it is: `next` will return it."""
        if self._unanswered is None:
            self._unanswered = asyncio.get_running_loop().time()
        await self._reply(ask=True)

    async def keep_replying(self) -> None:
        """Until it is cancelled, or the connection ends, which `next` raises."""
        with contextlib.suppress(psycopg.Error):
            while True:
                await asyncio.sleep(ASK_SECONDS)
                await self._reply()

    async def _check_alive(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._unanswered is None:
            if now - self._heard > ASK_SECONDS:
                await self.ask()
        elif now - self._unanswered > SERVER_SECONDS_MAX:
            raise psycopg.OperationalError("the server does not answer")

    async def _reply(self, *, ask: bool = False) -> None:
        async with self._sending:
            lsn = self._confirmed_lsn
            await _put(self._postgres, STATUS.pack(b"r", lsn, lsn, lsn, 0, ask))

    async def close(self) -> None:
        """Ends the copy; what was confirmed has then reached the server."""
        self._postgres.put_copy_end(None)
        await _flush(self._postgres)
        while True:
            length, _ = self._postgres.get_copy_data(1)
            if length < 0:
                break
            if length == 0:
                await _answered(self._postgres)

    def _ended(self) -> psycopg.Error:
        result = self._postgres.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return error_from_result(result)
        return psycopg.OperationalError("the server has ended the replication")


@asynccontextmanager
async def replication_stream(
    dsn: str, *, slot: str, publication: str
) -> AsyncIterator[ReplicationStream]:
    """A slot has one reader, and the server takes a moment to notice that the last one has died."""
    connection = await psycopg.AsyncConnection.connect(
        dsn, autocommit=True, replication="database", client_encoding="UTF8"
    )
    try:
        await _start_reading(connection, slot=slot, publication=publication)
        stream = ReplicationStream(connection)
        replying = asyncio.create_task(stream.keep_replying())
        try:
            yield stream
        finally:
            replying.cancel()
            await asyncio.wait([replying])
        await stream.close()
    finally:
        await connection.close()


async def _start_reading(connection: Connection, *, slot: str, publication: str) -> None:
    names = sql.Literal(sql.Identifier(publication).as_string(connection))
    command = sql.SQL(
        "START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version '1', publication_names {})"
    ).format(sql.Identifier(slot), names)
    for attempt in range(SLOT_ATTEMPTS_MAX):
        try:
            await _start(connection.pgconn, command.as_bytes(connection))
            return
        except psycopg.errors.ObjectInUse as error:
            if attempt == SLOT_ATTEMPTS_MAX - 1:
                raise SlotInUse(f"another process captures from slot {slot!r}") from error
            await asyncio.sleep(SLOT_PAUSE_SECONDS)
        except (
            psycopg.errors.UndefinedObject,
            psycopg.errors.ObjectNotInPrerequisiteState,
        ) as error:
            raise _slot_lost(slot) from error


def _slot_lost(slot: str) -> SlotLost:
    return SlotLost(
        f"slot {slot!r} is gone, and with it the changes since the last capture: "
        "start over with other topics"
    )


async def _start(postgres: pq.abc.PGconn, command: bytes) -> None:
    postgres.send_query(command)
    await _flush(postgres)
    while postgres.is_busy():
        await _answered(postgres)
    result = postgres.get_result()
    assert result is not None
    if result.status == pq.ExecStatus.COPY_BOTH:
        return
    while postgres.get_result() is not None:
        pass
    raise error_from_result(result)


async def _put(postgres: pq.abc.PGconn, message: bytes) -> None:
    while postgres.put_copy_data(message) == 0:  # the buffer is full
        await _writable(postgres.socket)
        postgres.flush()
    await _flush(postgres)


async def _flush(postgres: pq.abc.PGconn) -> None:
    while postgres.flush():
        await _writable(postgres.socket)


async def _answered(postgres: pq.abc.PGconn) -> None:
    if not await _readable(postgres.socket, SERVER_SECONDS_MAX):
        raise psycopg.OperationalError("the server does not answer")
    postgres.consume_input()


async def _readable(number: int, wait_seconds: float) -> bool:
    """Whether there is something to read, or the connection has ended, within the wait."""
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    loop.add_reader(number, seen.set)
    try:
        async with asyncio.timeout(max(0, wait_seconds)):
            await seen.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(number)
    return True


async def _writable(number: int) -> None:
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    loop.add_writer(number, seen.set)
    try:
        async with asyncio.timeout(SERVER_SECONDS_MAX):
            await seen.wait()
    except TimeoutError:
        raise psycopg.OperationalError("the server does not read what it is sent") from None
    finally:
        loop.remove_writer(number)

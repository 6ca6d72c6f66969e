"""The messages of PostgreSQL's output plugin `pgoutput`, protocol 1, as events. Pure.

    B  commit_lsn u64, time i64, xid u32                       a transaction begins
    R  oid u32, schema\\0, name\\0, identity u8, n u16,          what a table looks like
       n * (flags u8, name\\0, type u32, modifier i32)
    Y  oid u32, schema\\0, name\\0                             a type that is not built in
    I  oid u32, 'N' tuple                                      a row is new
    U  oid u32, ['K'|'O' tuple], 'N' tuple                     a row has changed
    D  oid u32, 'K'|'O' tuple                                  a row is gone
    T  n u32, flags u8, n * oid u32                            all rows of tables are gone
    C  flags u8, commit_lsn u64, end_lsn u64, time i64         the transaction has ended

    tuple: n u16, n * ('n' null | 'u' left as it was | 't' length u32, text)

'K' holds the old key, where it has changed; 'O' all of the old row, where the table's replica
identity is FULL. A long value that an update left alone ('u') is not sent: it is taken from 'O',
and without one the change can't be decoded. Times are microseconds since 2000.

The server sends whole transactions, in the order of their commits. It describes a table ('R')
before the first change of it in a connection, and again when the table has been altered.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.model.error import PenstockError

EPOCH_MS = 946_684_800_000  # 2000-01-01
BOOL, FLOATS, WHOLE, JSONS = 16, {700, 701}, {20, 21, 23, 26}, {114, 3802}
IGNORED = b"OM"  # origins and messages of applications
NO_MODIFIER = -1

Scalar = object  # of JSON: None, bool, int, float, str, or what a json column holds


class BadLog(PenstockError):
    """The server has sent something that can't be decoded as changes of rows."""


class TableRenamed(PenstockError):
    """A captured table has another name now."""


class Kind(Enum):
    SNAPSHOT = "snapshot"  # it was there when the capture began
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    type: str  # its name, as PostgreSQL writes it
    modifier: int | None  # of the type, such as a length; None: it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTable:
    key: tuple[str, ...]  # the columns of the primary key
    after_lsn: int  # transactions that were committed up to here are in the topic already


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    commit_lsn: int  # greater than that of every transaction before
    committed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """How a table looks from here on; comes before the first change of it, and when it differs."""

    table: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    table: str  # schema.name
    kind: Kind
    key: tuple[Scalar, ...]  # values of the primary key
    row: dict[str, Scalar] | None  # None: it is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    commit_lsn: int
    end_lsn: int  # from where on the rest of the log is read


Event = Begin | Schema | Change | Truncate | Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    name: str
    columns: tuple[tuple[str, int, int], ...]  # name, type and modifier


class _Unsent:
    """A value that an update left alone."""


UNSENT = _Unsent()


class Decoder:
    """The messages of one connection, one after the other.

    Tables that are not captured, and transactions that a table's topic has already, give no events
    but Begin and Commit: their rows are not even decoded.
    """

    def __init__(self, tables: Mapping[str, CapturedTable], types: Mapping[int, str]) -> None:
        self._tables = tables
        self._types = dict(types)
        self._relations: dict[int, Relation] = {}
        self._described: dict[str, Relation] = {}  # as the last Schema of each table
        self._commit_lsn = 0  # of the transaction under way

    def read(self, message: bytes) -> Iterator[Event]:
        kind, at = message[:1], Cursor(message, 1)
        match kind:
            case b"B":
                self._commit_lsn, time_us, _ = at.numbers("QqI")
                yield Begin(commit_lsn=self._commit_lsn, committed_ms=EPOCH_MS + time_us // 1000)
            case b"C":
                _, commit_lsn, end_lsn, _ = at.numbers("BQQq")
                yield Commit(commit_lsn=commit_lsn, end_lsn=end_lsn)
            case b"R":
                self._note(*at.relation())
            case b"Y":
                self._types.setdefault(at.number("I"), f"{at.text()}.{at.text()}")
            case b"I" | b"U" | b"D":
                relation = self._relations[at.number("I")]
                table = self._counted(relation.name)
                if table is not None:
                    yield from self._schema(relation)
                    yield from _changes(kind, at, relation, table.key)
            case b"T":
                count, _ = at.numbers("IB")
                for oid in at.numbers(f"{count}I"):
                    relation = self._relations[oid]
                    if self._counted(relation.name) is not None:
                        yield from self._schema(relation)
                        yield Truncate(table=relation.name)
            case _ if kind in IGNORED:
                pass
            case _:
                raise BadLog(f"the log holds a message of unknown kind {kind!r}")

    def _note(self, oid: int, relation: Relation) -> None:
        before = self._relations.get(oid)
        if before is not None and before.name != relation.name and self._counted(before.name):
            raise TableRenamed(
                f"{before.name} is now {relation.name}: capture it under that name"
                " (its rows are written again, to the topic of that name)"
            )
        self._relations[oid] = relation

    def _counted(self, name: str) -> CapturedTable | None:
        """The table, where changes of the transaction under way count for it."""
        table = self._tables.get(name)
        return None if table is None or self._commit_lsn <= table.after_lsn else table

    def _schema(self, relation: Relation) -> Iterator[Schema]:
        if self._described.get(relation.name) == relation:
            return
        self._described[relation.name] = relation
        columns = tuple(
            column_of(name, kind, modifier, self._types)
            for name, kind, modifier in relation.columns
        )
        yield Schema(table=relation.name, columns=columns)


def column_of(name: str, kind: int, modifier: int, types: Mapping[int, str]) -> Column:
    return Column(
        name=name,
        type=types.get(kind, f"type {kind}"),
        modifier=None if modifier == NO_MODIFIER else modifier,
    )


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


class Cursor:
    """A message and how far it is read."""

    def __init__(self, message: bytes, position: int) -> None:
        self._message = message
        self._position = position

    def numbers(self, form: str) -> tuple[int, ...]:
        layout = struct.Struct(">" + form)
        values: tuple[int, ...] = layout.unpack_from(self._message, self._position)
        self._position += layout.size
        return values

    def number(self, form: str) -> int:
        [value] = self.numbers(form)
        return value

    def text(self) -> str:
        end = self._message.index(b"\0", self._position)
        value = self._message[self._position : end].decode()
        self._position = end + 1
        return value

    def relation(self) -> tuple[int, Relation]:
        oid = self.number("I")
        name = f"{self.text()}.{self.text()}"
        columns = []
        _, count = self.numbers("BH")
        for _ in range(count):
            self.number("B")
            column = self.text()
            kind, modifier = self.numbers("Ii")
            columns.append((column, kind, modifier))
        return oid, Relation(name=name, columns=tuple(columns))

    def tuples(self, relation: Relation) -> dict[str, dict[str, Scalar]]:
        """The rows at the end of a message, by their letters."""
        found = {}
        while self._position < len(self._message):
            letter = chr(self.number("B"))
            count = self.number("H")
            if count != len(relation.columns):
                raise BadLog(f"{relation.name}: a row has {count} columns")
            found[letter] = {name: self._value(kind) for name, kind, _ in relation.columns}
        return found

    def _value(self, kind: int) -> Scalar:
        match chr(self.number("B")):
            case "n":
                return None
            case "u":
                return UNSENT
            case "t":
                length = self.number("I")
                start, self._position = self._position, self._position + length
                return typed(self._message[start : self._position].decode(), kind)
            case other:
                raise BadLog(f"the log holds a value of unknown form {other!r}")


def typed(text: str, kind: int) -> Scalar:
    """A value as JSON holds it; what JSON has no type for, exact numbers too, stays text."""
    if kind == BOOL:
        return text in ("t", "true")
    if kind in WHOLE:
        return int(text)
    if kind in FLOATS and text not in ("NaN", "Infinity", "-Infinity"):
        return float(text)
    return json.loads(text) if kind in JSONS else text


def _changes(kind: bytes, at: Cursor, relation: Relation, key: tuple[str, ...]) -> list[Change]:
    rows = at.tuples(relation)
    old, new = rows.get("O", rows.get("K")), rows.get("N")
    gone = None
    if old is not None:
        gone = Change(
            table=relation.name,
            kind=Kind.DELETE,
            key=tuple(old[column] for column in key),
            row=None,
        )
    if kind == b"D":
        assert gone is not None
        return [gone]
    assert new is not None
    row = {name: _sent(name, value, rows.get("O"), relation) for name, value in new.items()}
    what = Kind.INSERT if kind == b"I" else Kind.UPDATE
    change = Change(
        table=relation.name, kind=what, key=tuple(row[column] for column in key), row=row
    )
    # A row whose key has changed is another row to everyone downstream.
    return [change] if gone is None or gone.key == change.key else [gone, change]


def _sent(name: str, value: Scalar, old: dict[str, Scalar] | None, relation: Relation) -> Scalar:
    if value is not UNSENT:
        return value
    if old is None:
        raise BadLog(
            f"{relation.name}: an update left column {name!r} alone, and its value is not in the "
            f"log: ALTER TABLE {relation.name} REPLICA IDENTITY FULL"
        )
    return old[name]

"""The messages of PostgreSQL's output plugin `pgoutput`, protocol 1, as transactions. Pure.

    B  final_lsn u64, time i64, xid u32                        a transaction begins
    R  oid u32, schema\\0, name\\0, identity u8, n u16,          what a table looks like
       n * (flags u8, name\\0, type u32, modifier i32)
    I  oid u32, 'N' tuple                                      a row is new
    U  oid u32, ['K'|'O' tuple], 'N' tuple                     a row has changed
    D  oid u32, 'K'|'O' tuple                                  a row is gone
    C  flags u8, commit_lsn u64, end_lsn u64, time i64         the transaction has ended

    tuple: n u16, n * ('n' null | 'u' left as it was | 't' length u32, text)

'K' holds the old key, where it has changed; 'O' all of the old row, where the table's replica
identity is FULL. A long value that an update left alone ('u') is not sent: it is taken from 'O',
and without one the change can't be told. Times are microseconds since 2000.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.model.error import PenstockError

EPOCH_MS = 946_684_800_000  # 2000-01-01
BOOL, FLOATS, WHOLE, JSONS = 16, {700, 701}, {20, 21, 23, 26}, {114, 3802}
IGNORED = b"OYMT"  # origins, types, messages; truncations, which publications here do not tell

Scalar = object  # of JSON: None, bool, int, float, str, or what a json column holds


class BadLog(PenstockError):
    """What the server sent can't be told as changes of rows."""


class Kind(Enum):
    SNAPSHOT = "snapshot"  # it was there when the capture began
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    table: str  # schema.name
    kind: Kind
    key: tuple[Scalar, ...]  # values of the primary key
    row: dict[str, Scalar] | None  # None: it is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    commit_lsn: int  # greater than that of every transaction before
    end_lsn: int  # from where on the rest of the log is read
    committed_ms: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    name: str
    columns: tuple[tuple[str, int], ...]  # name and type


class _Unsent:
    """A value that an update left alone."""


UNSENT = _Unsent()


def transactions(
    messages: Iterable[bytes], keys: Mapping[str, tuple[str, ...]]
) -> list[Transaction]:
    """Whole transactions, in the order of their commits; `keys` names each table's primary key."""
    found: list[Transaction] = []
    relations: dict[int, Relation] = {}
    changes: list[Change] = []
    for message in messages:
        kind, at = message[:1], Cursor(message, 1)
        match kind:
            case b"B":
                changes = []
            case b"R":
                oid, relation = at.relation()
                relations[oid] = relation
            case b"I" | b"U" | b"D":
                relation = relations[at.number("I")]
                changes += _changes(kind, at, relation, keys[relation.name])
            case b"C":
                _, commit_lsn, end_lsn, time_us = at.numbers("BQQq")
                found.append(
                    Transaction(
                        commit_lsn=commit_lsn,
                        end_lsn=end_lsn,
                        committed_ms=EPOCH_MS + time_us // 1000,
                        changes=tuple(changes),
                    )
                )
            case _ if kind in IGNORED:
                pass
            case _:
                raise BadLog(f"the log holds a message of unknown kind {kind!r}")
    return found


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
            kind, _ = self.numbers("Ii")
            columns.append((column, kind))
        return oid, Relation(name=name, columns=tuple(columns))

    def tuples(self, relation: Relation) -> dict[str, dict[str, Scalar]]:
        """The rows at the end of a message, by their letters."""
        found = {}
        while self._position < len(self._message):
            letter = chr(self.number("B"))
            count = self.number("H")
            if count != len(relation.columns):
                raise BadLog(f"{relation.name}: a row has {count} columns")
            found[letter] = {name: self._value(kind) for name, kind in relation.columns}
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
    told = Kind.INSERT if kind == b"I" else Kind.UPDATE
    change = Change(
        table=relation.name, kind=told, key=tuple(row[column] for column in key), row=row
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

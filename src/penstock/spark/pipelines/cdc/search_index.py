"""A search index in one file: the latest rows of a table, found by their words (SQLite's FTS5).

    meta       name, value: the topic, its id, and the columns that the index is of
    positions  partition, next_offset
    changes    partition, position: of the last change that was read, in the database's log
    rows       id, key, position, step, row: the row as JSON; null: it is gone, and at this place
    words      the text of a row under its id

Rows, words, positions and changes change in one transaction of SQLite. Others may search meanwhile.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from penstock.model.error import PenstockError
from penstock.model.identity import TopicId
from penstock.spark.pipelines.cdc.latest_rows import NOWHERE, Place, Row, latest
from penstock.spark.pipelines.cdc.store_progress import Progress

LOCK_SECONDS_MAX = 30
TABLES = """
    CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER);
    CREATE TABLE IF NOT EXISTS changes (
        partition INTEGER PRIMARY KEY, position INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS rows (
        id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL,
        position INTEGER NOT NULL, step INTEGER NOT NULL, row TEXT
    );
    CREATE INDEX IF NOT EXISTS deleted ON rows (position) WHERE row IS NULL;
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text);
"""
TOPIC_ID = "topic_id"  # in meta, from the first write on; as hexadecimal digits
PUT = """
    INSERT INTO rows (key, position, step, row) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        position = excluded.position, step = excluded.step, row = excluded.row
    RETURNING id
"""
SEARCH = """
    SELECT rows.key, rows.row FROM words JOIN rows ON rows.id = words.rowid
    WHERE words.text MATCH ? ORDER BY bm25(words), rows.key LIMIT ?
"""


class OtherIndex(PenstockError):
    """The file is an index of something else, or none at all."""


class BadQuery(PenstockError):
    """A question that FTS5 does not understand."""


class Hit(NamedTuple):
    key: str
    row: dict[str, object]


class SearchIndex:
    """The side that writes; `search` asks. Use as `with SearchIndex(...) as index`."""

    def __init__(self, file: Path, *, topic: str, columns: Sequence[str] = ()) -> None:
        """`columns`: whose text is searched; none: all that hold text."""
        self._file = file
        self._topic = topic
        self._columns = tuple(columns)
        self._base = sqlite3.connect(file, timeout=LOCK_SECONDS_MAX, isolation_level=None)
        try:
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.executescript(TABLES)
            self._check_meta()
        except sqlite3.DatabaseError as error:
            raise OtherIndex(f"{file} is no index: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._base.close()

    @property
    def title(self) -> str:
        return f"index {self._file}"

    @property
    def how_to_empty(self) -> str:
        return "remove the file, and it is filled from the first record"

    def progress(self) -> Progress:
        found = self._base.execute("SELECT value FROM meta WHERE name = ?", (TOPIC_ID,)).fetchone()
        return Progress(
            topic_id=None if found is None else TopicId(bytes.fromhex(found[0])),
            next_offsets=dict(self._base.execute("SELECT partition, next_offset FROM positions")),
            change_positions=dict(self._base.execute("SELECT partition, position FROM changes")),
        )

    def write(self, rows: list[Row], progress: Progress) -> None:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            for row in latest(rows, self._known(rows)):
                self._put(row)
            self._put_progress(progress)
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def forget_deleted(self, before: int) -> None:
        self._base.execute("DELETE FROM rows WHERE row IS NULL AND position < ?", (before,))

    def _known(self, rows: list[Row]) -> dict[str, Place]:
        known = {}
        for key in {row.key for row in rows}:
            found = self._base.execute("SELECT position, step FROM rows WHERE key = ?", (key,))
            for position, step in found:
                known[key] = Place(position, step)
        return known

    def _put(self, row: Row) -> None:
        text = None if row.fields is None else json.dumps(row.fields, ensure_ascii=False)
        [(number,)] = self._base.execute(PUT, (row.key, *row.place, text)).fetchall()
        self._base.execute("DELETE FROM words WHERE rowid = ?", (number,))
        if row.fields is not None:
            words = self._words(row.fields)
            self._base.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, words))
        elif row.place == NOWHERE:  # which is the place of keys that are not known
            self._base.execute("DELETE FROM rows WHERE id = ?", (number,))

    def _put_progress(self, progress: Progress) -> None:
        self._base.executemany(
            "INSERT OR REPLACE INTO positions VALUES (?, ?)", progress.next_offsets.items()
        )
        self._base.executemany(
            "INSERT OR REPLACE INTO changes VALUES (?, ?)", progress.change_positions.items()
        )
        if progress.topic_id is not None:
            topic_id = (TOPIC_ID, progress.topic_id.hex())
            self._base.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", topic_id)

    def _words(self, fields: Mapping[str, object]) -> str:
        chosen = [fields.get(name) for name in self._columns] if self._columns else fields.values()
        return "\n".join(value for value in chosen if isinstance(value, str))

    def _check_meta(self) -> None:
        meta = {"topic": self._topic, "columns": ",".join(self._columns)}
        known = dict(
            self._base.execute("SELECT name, value FROM meta WHERE name != ?", (TOPIC_ID,))
        )
        if not known:
            # One statement, which is done as a whole: half of it would be another index.
            both = "INSERT INTO meta VALUES ('topic', ?), ('columns', ?)"
            self._base.execute(both, (meta["topic"], meta["columns"]))
        elif known != meta:
            columns = known.get("columns") or "all"
            raise OtherIndex(
                f"{self._file} is the index of topic {known.get('topic')}, columns {columns}"
            )


def search(file: Path, query: str, *, count_max: int) -> list[Hit]:
    """The best rows for a query of FTS5: words, "a phrase", prefix*, AND, OR, NOT."""
    if not file.exists():
        raise OtherIndex(f"{file} does not exist")
    base = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    try:
        if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchall():
            raise OtherIndex(f"{file} is no index")
        found = base.execute(SEARCH, (query, count_max)).fetchall()
    except sqlite3.OperationalError as error:
        raise BadQuery(f"{query!r}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise OtherIndex(f"{file} is no index: {error}") from error
    finally:
        base.close()
    return [Hit(key, json.loads(row)) for key, row in found]

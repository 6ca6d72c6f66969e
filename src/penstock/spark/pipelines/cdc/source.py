"""What is captured, and the names that follow from it. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.model.error import PenstockError

DEFAULT_SCHEMA = "public"
NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")
NAME_LENGTH_MAX = 40  # of 63 that PostgreSQL allows: penstock_NAME_CLUSTER_rows is a slot's


class BadSource(PenstockError):
    """Tables that can't be captured as they are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    dsn: str
    name: str  # of the publication, and how slots begin; lower case, digits and _
    topics: Mapping[str, str]  # schema.table to topic
    positions: str  # a compacted topic of one partition: how far each source is captured
    events: str  # a topic of one partition: what happened to tables as a whole

    @property
    def transactional_id(self) -> str:
        return f"cdc.{self.name}"


def source_of(dsn: str, tables: Iterable[str], *, prefix: str) -> Source:
    """Each table has the topic PREFIX.SCHEMA.TABLE, as with Debezium."""
    names = [whole_name(table) for table in tables]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadSource(f"table {twice[0]} is named twice")
    return Source(
        dsn=dsn,
        name=f"penstock_{_name_part(prefix)}",
        topics={name: f"{prefix}.{name}" for name in names},
        positions=f"{prefix}.positions",
        events=f"{prefix}.events",
    )


def _name_part(prefix: str) -> str:
    """The prefix in characters that PostgreSQL takes; no two of them have the same."""
    plain = NOT_IN_NAMES.sub("_", prefix.lower())
    if plain == prefix and len(plain) <= NAME_LENGTH_MAX:
        return plain
    digest = _digest(prefix)
    return f"{plain[: NAME_LENGTH_MAX - 1 - len(digest)]}_{digest}"


def whole_name(table: str) -> str:
    """With its schema."""
    schema, dot, name = table.partition(".")
    if not schema or (dot and not name):
        raise BadSource(f"{table!r} is no table: expected TABLE or SCHEMA.TABLE")
    return table if dot else f"{DEFAULT_SCHEMA}.{schema}"


def slot_name(source: Source, cluster_id: str) -> str:
    """A name that PostgreSQL takes: cluster ids have characters that it does not."""
    return f"{source.name}_{_digest(cluster_id)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

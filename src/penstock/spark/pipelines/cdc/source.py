"""What is captured, and the names that follow from it. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.model.error import PenstockError

DEFAULT_SCHEMA = "public"
NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")


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
        name=f"penstock_{NOT_IN_NAMES.sub('_', prefix.lower())}",
        topics={name: f"{prefix}.{name}" for name in names},
        positions=f"{prefix}.positions",
        events=f"{prefix}.events",
    )


def whole_name(table: str) -> str:
    """With its schema."""
    schema, dot, name = table.partition(".")
    if not schema or (dot and not name):
        raise BadSource(f"{table!r} is no table: expected TABLE or SCHEMA.TABLE")
    return table if dot else f"{DEFAULT_SCHEMA}.{schema}"


def slot_name(source: Source, cluster_id: str) -> str:
    """A name that PostgreSQL takes: cluster ids have characters that it does not."""
    return f"{source.name}_{hashlib.sha256(cluster_id.encode()).hexdigest()[:8]}"

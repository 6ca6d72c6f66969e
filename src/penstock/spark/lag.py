"""Commits the progress of queries to consumer groups, so that every lag tool shows it.

Spark calls this listener after each finished batch; it commits the end offsets of the batch. They
are for people to see: a query resumes from its checkpoint alone. So a failure is logged, once for
each run, and the query continues.

Spark calls listeners in the driver's Python. The readers run in processes of their own, so their
options are taken from Spark's plan of the query.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.model.error import PenstockError
from penstock.spark.config_file import with_file
from penstock.spark.connection import run
from penstock.spark.data_source import NAME
from penstock.spark.options import ConnectionOptions, given
from penstock.spark.query_group import behind, chosen_group, commit_progress, default_group
from penstock.spark.source.options import KNOWN
from penstock.spark.source.positions import Offsets, from_json

PATIENCE_MS = 5_000  # other listeners wait meanwhile
WAITS = ("request.timeout.ms", "socket.connection.setup.timeout.ms", "default.api.timeout.ms")

UNKNOWN = (None, "null")  # an end offset that Spark has not asked for yet

logger = logging.getLogger(__name__)


class StrangePlan(PenstockError):
    """Spark reports progress of other sources than it has planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the progress of a source is committed."""

    connection: ConnectionOptions
    group: str


@dataclass(slots=True)
class Run:
    """A run of a query: its sources, in Spark's order, with None for those of other formats."""

    places: tuple[Place | None, ...]
    told: dict[Place, Offsets] = field(default_factory=dict)
    failed: bool = False


class LagListener(StreamingQueryListener):
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, Run] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query, run_id = str(event.id), str(event.runId)
        try:
            places = tuple(
                None if options is None else _place(options, query=event.name or query)
                for options in self._sources(query)
            )
        except PenstockError:
            return  # the reader says the same of its options, and ends the query
        if any(places):
            self._runs[run_id] = Run(places)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        known = self._runs.get(str(event.progress.runId))
        if known is None:
            return
        ends = [source.endOffset for source in event.progress.sources]
        try:
            run(_tell(known, ends))
        except (PenstockError, OSError) as error:
            if not known.failed:
                query = event.progress.name or event.progress.id
                logger.warning(
                    "the progress of a query is not committed query=%s: %s", query, error
                )
            known.failed = True

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._runs.pop(str(event.runId), None)

    def _sources(self, query: str) -> Iterator[dict[str, str] | None]:
        """The options of each source of a query that has just been started."""
        execution = self._spark._jsparkSession.streams().get(query).streamingQuery()
        leaves = execution.analyzedPlan().collectLeaves().distinct()
        for number in range(leaves.size()):
            leaf = leaves.apply(number)
            if leaf.isStreaming():
                yield _options(leaf)


def _options(leaf: Any) -> dict[str, str] | None:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2" or leaf.sourceName() != NAME:
        return None
    return dict(leaf.extraOptions().asCaseSensitiveMap())


def _place(options: dict[str, str], *, query: str) -> Place:
    read = given(with_file(options), known=KNOWN)
    connection = read.connection()
    hurried = dict(connection.kafka) | dict.fromkeys(WAITS, str(PATIENCE_MS))
    return Place(
        connection=replace(connection, kafka=tuple(sorted(hurried.items()))),
        group=chosen_group(read) or default_group(read, query=query),
    )


async def _tell(known: Run, ends: Sequence[str | None]) -> None:
    for place, offsets in _progress(known.places, ends):
        if offsets and known.told.get(place) != offsets:
            await commit_progress(place.connection, place.group, offsets)
            known.told[place] = offsets


def _progress(
    places: Sequence[Place | None], ends: Sequence[str | None]
) -> Iterator[tuple[Place, Offsets]]:
    """For each place what its sources have behind them."""
    if len(places) != len(ends):
        raise StrangePlan(
            f"Spark has planned {len(places)} sources and reports progress of {len(ends)}"
        )
    for place in dict.fromkeys(place for place in places if place is not None):
        reached = [
            from_json(json.loads(end))
            for source, end in zip(places, ends, strict=True)
            if source == place and end not in UNKNOWN
        ]
        yield place, behind(reached)

"""Running views of keys, without those that have had no event for some time.

The events of a key, by their times, are runs: a gap of `forget_after` or more ends a run, and only
the last run counts. It is forgotten as well once the watermark has passed its last event. The
watermark stands `forget_after` before the latest event of the query, so what has been forgotten
follows from the events alone, not from when they are read or how they are cut into batches, as far
as they are read in the order of their times. Spark drops events that are older than the watermark;
nothing is remembered from that time.

Each key has one timer, at an event of it. When the timer fires, the key is forgotten, or the timer
is set to the last event since: a batch costs what it has of events and timers, and does not look at
all state. ADR 57 and 60.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

AT_MS = "_at_ms"
VIEW = "view"
Fields = tuple[Any, ...]  # in the order of a schema


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is remembered of a key and what is shown of it. Schemas are fields in Spark's DDL."""

    memory: str
    shown: str
    add: Callable[[Fields | None, Iterable[Row]], Fields]  # None: nothing is remembered
    show: Callable[[Fields], Row]


def view_of_recent(
    events: DataFrame, view: View, *, key: str, at: str, forget_after_ms: int
) -> DataFrame:
    """The view of each key that a batch has events of, and null for each that is forgotten: also
    before the view of a key that begins anew.

    `at` is the column of event time. The result has the columns `key` and `view`.
    """
    assert forget_after_ms > 0
    return (
        events.withColumn(AT_MS, F.unix_millis(at))
        .withWatermark(at, f"{forget_after_ms} milliseconds")
        .groupBy(key)
        .transformWithState(
            ForgetQuietKeys(view, key, forget_after_ms=forget_after_ms),
            f"{key} string, {VIEW} struct<{view.shown}>",
            "append",  # a row is written once; the rows of a key are in order
            "eventTime",
        )
    )


class Run(NamedTuple):
    is_new: bool  # what was known is of an earlier run, or nothing was
    events: list[Row]  # that belong to it, by their times
    last_at_ms: int


def last_run(known_at_ms: int | None, events: Iterable[Row], *, forget_after_ms: int) -> Run:
    """The last run of what is known and some more events. `known_at_ms`: of the last known event;
    with None there must be at least one. Events that lie so far before it are of an earlier run.
    """
    run: list[Row] = []
    is_new, last_at_ms = known_at_ms is None, known_at_ms
    for event in sorted(events, key=lambda one: one[AT_MS]):
        at_ms = event[AT_MS]
        if last_at_ms is None or at_ms >= last_at_ms + forget_after_ms:
            is_new, run = True, []
        elif at_ms <= last_at_ms - forget_after_ms:
            continue
        run.append(event)
        last_at_ms = at_ms if last_at_ms is None else max(last_at_ms, at_ms)
    assert last_at_ms is not None
    return Run(is_new, run, last_at_ms)


class ForgetQuietKeys(StatefulProcessor):
    """Spark calls it on its workers, for one key after another. A key with state has one timer."""

    def __init__(self, view: View, key: str, *, forget_after_ms: int) -> None:
        self._view = view
        self._key = key
        self._forget_after_ms = forget_after_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        schema = f"last_at_ms long, memory struct<{self._view.memory}>"
        self._state = handle.getValueState("memory", schema)

    def handleInputRows(self, key: Fields, rows: Any, timerValues: TimerValues) -> Iterator[Row]:
        known = self._state.get()
        last_at_ms = None if known is None else known[0]
        run = last_run(last_at_ms, rows, forget_after_ms=self._forget_after_ms)
        if not run.events:
            return
        if known is None:
            self._handle.registerTimer(run.last_at_ms)
        elif run.is_new:
            yield self._row(key, None)
        memory = self._view.add(None if known is None or run.is_new else known[1], run.events)
        self._state.update((run.last_at_ms, memory))
        yield self._row(key, self._view.show(memory))

    def handleExpiredTimer(
        self, key: Fields, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        known = self._state.get()
        assert known is not None, key
        last_at_ms = known[0]
        if last_at_ms > timerValues.getCurrentWatermarkInMs():
            self._handle.registerTimer(last_at_ms)
            return
        self._state.clear()
        yield self._row(key, None)

    def _row(self, key: Fields, view: Row | None) -> Row:
        return Row(**{self._key: key[0], VIEW: view})

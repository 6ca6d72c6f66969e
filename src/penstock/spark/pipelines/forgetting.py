"""Running views of keys, without those that have had no event for some time.

A key is forgotten once the watermark has passed its last event. The watermark stands `forget_after`
before the latest event of the query, so what has been forgotten follows from the events alone: not
from when or how fast they are read. Spark drops events that are older than the watermark; nothing
is remembered from that time.

Each key has one timer, at an event of it. When the timer fires, the key is forgotten, or the timer
is set to the last event since: a batch costs what it has of events and timers, and does not look at
all state. ADR 57.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
    """The view of each key that a batch has events of, and null for each that is forgotten.

    `at` is the column of event time. The result has the columns `key` and `view`.
    """
    assert forget_after_ms > 0
    return (
        events.withColumn(AT_MS, F.unix_millis(at))
        .withWatermark(at, f"{forget_after_ms} milliseconds")
        .groupBy(key)
        .transformWithState(
            ForgetQuietKeys(view, key),
            f"{key} string, {VIEW} struct<{view.shown}>",
            "append",  # a row is written once; the rows of a key are in order
            "eventTime",
        )
    )


class ForgetQuietKeys(StatefulProcessor):
    """Spark calls it on its workers, for one key after another. A key with state has one timer."""

    def __init__(self, view: View, key: str) -> None:
        self._view = view
        self._key = key

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        schema = f"last_at_ms long, memory struct<{self._view.memory}>"
        self._state = handle.getValueState("memory", schema)

    def handleInputRows(self, key: Fields, rows: Any, timerValues: TimerValues) -> Iterator[Row]:
        events: list[Row] = list(rows)
        last_at_ms = max(event[AT_MS] for event in events)
        known = self._state.get()
        if known is None:
            memory = self._view.add(None, events)
            self._handle.registerTimer(last_at_ms)
        else:
            memory = self._view.add(known[1], events)
            last_at_ms = max(last_at_ms, known[0])
        self._state.update((last_at_ms, memory))
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

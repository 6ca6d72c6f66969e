"""The stateful step: signals in, alerts out, by the rules of `rules.py`.

Windows can't say "six within any minute, and then one alert": windows that stand still miss what
crosses their edges, and those that slide tell of one attack many times. So each rule and subject
has a memory of its own, kept by Spark with the checkpoint, and dropped by event time when nothing
in it can matter any more. `applyInPandasWithState` does with any state store;
`transformWithState` needs RocksDB, and has nothing more for us.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from penstock.spark.pipelines.clickstream.rules import (
    LATENESS,
    NOTHING,
    RULES,
    Memory,
    Moment,
    Rule,
    Run,
    forget_at_ms,
    notice,
)
from penstock.spark.pipelines.clickstream.steps import watermark_delay
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS, EventTimeBounds

ALERT = (
    "rule string, subject string, first_at_ms long, last_at_ms long, events int,"
    " event_ids array<string>"
)
# One column of JSON: PySpark 4.2 reads the schema of a state in lower case; no array bears that.
MEMORY = "memory string"


def alerts(signals: DataFrame, *, event_time: EventTimeBounds = DEFAULT_BOUNDS) -> DataFrame:
    """One row for each run of fraud, in the batch that brings the event which makes it one."""
    disorder_ms = LATENESS.watermark_ms(event_time)
    rules = {name: replace(rule, disorder_ms=disorder_ms) for name, rule in RULES.items()}

    def watch_by_rules(
        group: tuple[Any, ...], frames: Iterable[pandas.DataFrame], state: GroupState
    ) -> Iterator[pandas.DataFrame]:
        return watch(group, frames, state, rules)

    return (
        signals.withWatermark("at", watermark_delay(event_time))
        .groupBy("rule", "subject")
        .applyInPandasWithState(
            watch_by_rules, ALERT, MEMORY, "append", GroupStateTimeout.EventTimeTimeout
        )
    )


def watch(
    group: tuple[Any, ...],
    frames: Iterable[pandas.DataFrame],
    state: GroupState,
    rules: Mapping[str, Rule],
) -> Iterator[pandas.DataFrame]:
    """Spark calls this for each rule and subject with new signals, or whose time is over."""
    name, subject = group
    rule = rules[name]
    if state.hasTimedOut:
        state.remove()
        return
    memory, told = notice(remembered(state), moments_of(frames), rule)
    state.update((text_of(memory),))
    state.setTimeoutTimestamp(max(forget_at_ms(memory, rule), state.getCurrentWatermarkMs() + 1))
    yield pandas.DataFrame(
        [
            (
                name,
                subject,
                alert.first_at_ms,
                alert.last_at_ms,
                len(alert.event_ids),
                alert.event_ids,
            )
            for alert in told
        ],
        columns=["rule", "subject", "first_at_ms", "last_at_ms", "events", "event_ids"],
    )


def remembered(state: GroupState) -> Memory:
    if not state.exists:
        return NOTHING
    [text] = state.get
    return memory_of(text)


def memory_of(text: str) -> Memory:
    moments, runs = json.loads(text)
    return Memory(
        moments=tuple(Moment(*moment) for moment in moments), runs=tuple(Run(*run) for run in runs)
    )


def text_of(memory: Memory) -> str:
    return json.dumps([memory.moments, memory.runs], separators=(",", ":"))


def moments_of(frames: Iterable[pandas.DataFrame]) -> list[Moment]:
    """A batch's signals of one subject in order: how Spark has cut them up is of no account."""
    return sorted(
        Moment(int(at_ms), event_id, detail)
        for frame in frames
        for at_ms, event_id, detail in zip(
            frame["at_ms"], frame["event_id"], frame["detail"], strict=True
        )
    )

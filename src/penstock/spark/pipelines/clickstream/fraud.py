"""The stateful step: signals in, alerts out, by the rules of `rules.py`.

Windows can't say "six within any minute, and then one alert": windows that stand still miss what
crosses their edges, and those that slide tell of one attack many times. So each rule and subject
has a memory of its own, kept by Spark with the checkpoint, and dropped by event time when nothing
in it can matter any more. `applyInPandasWithState` does with any state store;
`transformWithState` needs RocksDB, and has nothing more for us.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from penstock.spark.pipelines.clickstream.rules import (
    NOTHING,
    RULES,
    Memory,
    Moment,
    Run,
    forget_at_ms,
    notice,
)
from penstock.spark.pipelines.clickstream.steps import LATENESS

ALERT = (
    "rule string, subject string, first_at_ms long, last_at_ms long, events int,"
    " event_ids array<string>"
)
# One column of JSON: PySpark 4.2 reads the schema of a state in lower case; no array bears that.
MEMORY = "memory string"


def alerts(signals: DataFrame) -> DataFrame:
    """One row for each run of fraud, in the batch that brings the event which makes it one."""
    return (
        signals.withWatermark("at", LATENESS)
        .groupBy("rule", "subject")
        .applyInPandasWithState(watch, ALERT, MEMORY, "append", GroupStateTimeout.EventTimeTimeout)
    )


def watch(
    group: tuple[Any, ...], frames: Iterable[pandas.DataFrame], state: GroupState
) -> Iterator[pandas.DataFrame]:
    """Spark calls this for each rule and subject with new signals, or whose time is over."""
    name, subject = group
    rule = RULES[name]
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

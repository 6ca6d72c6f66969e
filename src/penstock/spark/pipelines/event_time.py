"""Columns that say why the time of an event can't be right, by the bounds of `event_time_bounds`.

They ask for the source's column `timestamp`. Reasons are the same for all such rows of a field, so
that `penstock dlq list` counts them; the time itself is in the letter's value.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.spark.dead_letter import replayed_ms, was_counted
from penstock.spark.pipelines.event_time_bounds import (
    RECORD_AHEAD_MS_MAX,
    EventTimeBounds,
    Lateness,
    span,
)

RECORD_AHEAD = (
    f"the record's timestamp is more than {span(RECORD_AHEAD_MS_MAX)} after the time of its batch"
)

COUNTED = "it was counted before where it was not too late, and is too late for the rest"


def replay_fault(rows: DataFrame) -> Column:
    """A sentence for a replayed letter whose record would count twice, and else null."""
    if "headers" not in rows.columns:
        return F.lit(None).cast("string")
    return F.when(was_counted(), F.lit(COUNTED))


def record_fault() -> Column:
    """A sentence for a record whose own timestamp is of the future, and else null. The time of a
    batch is in its checkpoint: a batch that is repeated judges as before.
    """
    now_ms = F.unix_millis(F.current_timestamp())
    return F.when(_record_ms() > now_ms + RECORD_AHEAD_MS_MAX, F.lit(RECORD_AHEAD))


def ahead_fault(field: str, at_ms: Column, bounds: EventTimeBounds) -> Column:
    """A sentence for a time that is too far ahead, and else null. `at_ms` may be any number: it is
    compared, never added to.
    """
    too_late = at_ms > _record_ms() + bounds.ahead_ms_max
    return F.when(too_late, F.lit(bounds.too_late(field)))


def behind_fault(field: str, at_ms: Column, bounds: EventTimeBounds) -> Column:
    too_early = at_ms < _record_ms() - bounds.behind_ms_max
    return F.when(too_early, F.lit(bounds.too_early(field)))


def late_fault(rows: DataFrame, field: str, at_ms: Column, lateness: Lateness) -> Column:
    """A sentence for a time so far behind its record that a window may be over, and else null.

    A record that was replayed came with the replay, though its timestamp is the old one.
    """
    came_ms = _record_ms()
    if "headers" in rows.columns:
        came_ms = F.greatest(came_ms, replayed_ms())
    return F.when(at_ms < came_ms - lateness.late_ms_max, F.lit(lateness.reason(field)))


def _record_ms() -> Column:
    return F.unix_millis(F.col("timestamp"))

"""Columns that say why the time of an event can't be right, by the bounds of `event_time_bounds`.

They ask for the source's column `timestamp`. Reasons are the same for all such rows of a field, so
that `penstock dlq list` counts them; the time itself is in the letter's value.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.spark.pipelines.event_time_bounds import RECORD_AHEAD_MS_MAX, EventTimeBounds, span

RECORD_AHEAD = (
    f"the record's timestamp is more than {span(RECORD_AHEAD_MS_MAX)} after the time of its batch"
)


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


def _record_ms() -> Column:
    return F.unix_millis(F.col("timestamp"))

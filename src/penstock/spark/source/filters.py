"""Conditions of a query that spare reading: on topic, partition, offset, and on time from below.

Spark hands them to a source that is read once, and none to a stream. Every condition stays with
Spark too, so a range may be wider than the condition, never narrower. A time from above spares
nothing: later records may carry earlier times.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.plan import ReadRange
from penstock.spark.source.positions import OFFSET_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What a row must be like; without conditions any row is."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    partition_low: int = 0
    partition_high: int = OFFSET_MAX  # inclusive
    offset_start: int = 0
    offset_end: int = OFFSET_MAX
    timestamp_ms_min: int | None = None

    def has(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and (self.partitions is None or partition.partition in self.partitions)
            and self.partition_low <= partition.partition <= self.partition_high
        )

    def cut(self, ranges: Iterable[ReadRange]) -> list[ReadRange]:
        """What of the ranges may hold such a row."""
        found = []
        for one in ranges:
            start = Offset(max(one.start, self.offset_start))
            end = Offset(min(one.end, self.offset_end))
            if self.has(one.partition) and start < end:
                found.append(replace(one, start=start, end=end))
        return found


def narrowed(filters: Iterable[Filter]) -> Narrowed:
    """What all conditions together spare; one that is not understood spares nothing."""
    found = Narrowed()
    for one in filters:
        if isinstance(
            one, EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
        ) and one.attribute in (("topic",), ("partition",), ("offset",), ("timestamp",)):
            found = _with(found, one.attribute[0], one)
    return found


def _with(found: Narrowed, column: str, one: Filter) -> Narrowed:
    values = tuple(one.value) if isinstance(one, In) else (one.value,)  # type: ignore[attr-defined]  # one of six that have it
    if any(value is None for value in values) or not values:
        return found
    if column == "topic":
        if isinstance(one, EqualTo | In):
            names = frozenset(map(str, values))
            return replace(found, topics=names if found.topics is None else found.topics & names)
        return found
    if column == "timestamp":
        if isinstance(one, EqualTo | In | GreaterThan | GreaterThanOrEqual):
            times = [_milliseconds(value) for value in values if isinstance(value, datetime)]
            if len(times) == len(values):
                least = max(min(times), found.timestamp_ms_min or 0)
                return replace(found, timestamp_ms_min=least)
        return found
    if not all(isinstance(value, int) for value in values):
        return found
    low, high = _bounds(one, values)
    if column == "offset":
        return replace(
            found,
            offset_start=max(found.offset_start, low),
            offset_end=min(found.offset_end, high + 1),
        )
    if isinstance(one, In):
        numbers = frozenset(values)
        kept = numbers if found.partitions is None else found.partitions & numbers
        return replace(found, partitions=kept)
    return replace(
        found,
        partition_low=max(found.partition_low, low),
        partition_high=min(found.partition_high, high),
    )


def _bounds(one: Filter, values: tuple[int, ...]) -> tuple[int, int]:
    """The least and the greatest number that the condition lets through."""
    match one:
        case GreaterThan():
            return values[0] + 1, OFFSET_MAX
        case GreaterThanOrEqual():
            return values[0], OFFSET_MAX
        case LessThan():
            return 0, values[0] - 1
        case LessThanOrEqual():
            return 0, values[0]
        case _:
            return min(values), max(values)


def _milliseconds(moment: datetime) -> int:
    """Rounded down; one without a zone is taken for UTC, and a day earlier to be safe."""
    if moment.tzinfo is None:
        return int(moment.replace(tzinfo=UTC).timestamp() * 1000) - 86_400_000
    return int(moment.timestamp() * 1000) - 1

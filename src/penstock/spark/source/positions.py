"""Which partitions are read, from where and to where: as users say it, and as offsets.

Pure. `selection`, `starting` and `ending` parse what options say; a `Where` says what to ask of the
brokers (`question`) and what the answers come to (`resolved`). Offsets travel in checkpoints as
Spark's own Kafka source writes them, {"topic": {"0": 12}}, sorted, because Spark compares texts.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import assert_never

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.options import BadOption
from penstock.spark.source.errors import BadPosition, ForeignCheckpoint

OFFSET_MAX = 2**63 - 1
INTERNAL = "__"  # the topics of brokers and sinks begin so

Offsets = dict[TopicPartition, Offset]


class Edge(IntEnum):
    """An end of the log, by the number it has in the JSON of users and on the wire."""

    LATEST = -1
    EARLIEST = -2


class NoneThatYoung(Enum):
    """What becomes of a partition that has no record at or after a time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Topics:
    names: tuple[str, ...]

    def reads(self, topic: str) -> bool:
        return topic in self.names

    def __str__(self) -> str:
        return f"subscribe={','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Topics whose whole name matches. Those of brokers and sinks are never meant: a query that
    read the decisions of its own sink would never come to an end.
    """

    text: str

    def reads(self, topic: str) -> bool:
        return not topic.startswith(INTERNAL) and re.fullmatch(self.text, topic) is not None

    def __str__(self) -> str:
        return f"subscribePattern={self.text}"


@dataclass(frozen=True, slots=True)
class Assigned:
    partitions: tuple[TopicPartition, ...]

    def reads(self, topic: str) -> bool:
        return any(one.topic == topic for one in self.partitions)

    def __str__(self) -> str:
        return f"assign={json.dumps(_assigned_json(self.partitions))}"


Selection = Topics | Pattern | Assigned


@dataclass(frozen=True, slots=True)
class AtEdge:
    edge: Edge


@dataclass(frozen=True, slots=True)
class AtTime:
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffsets:
    """One place for each partition. `option` is where they were told, for errors."""

    option: str
    places: Mapping[TopicPartition, Offset | Edge]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTimes:
    option: str
    timestamps_ms: Mapping[TopicPartition, int]


Where = AtEdge | AtTime | AtOffsets | AtTimes

EARLIEST = AtEdge(Edge.EARLIEST)
LATEST = AtEdge(Edge.LATEST)


def selection(
    *,
    subscribe: tuple[str, ...] | None,
    subscribe_pattern: str | None,
    assign: str | None,
) -> Selection:
    """What one of the three options says; exactly one of them has to be there."""
    told = [subscribe, subscribe_pattern, assign]
    if sum(one is not None for one in told) != 1:
        raise BadOption(
            "exactly one of the options subscribe, subscribePattern and assign says what to read"
        )
    if subscribe is not None:
        return Topics(subscribe)
    if subscribe_pattern is not None:
        try:
            re.compile(subscribe_pattern)
        except re.error as error:
            raise BadOption(f"option subscribePattern is no pattern: {error}") from error
        return Pattern(subscribe_pattern)
    assert assign is not None
    return Assigned(_assigned(assign))


def starting(
    *, offsets: str | None, offsets_by_timestamp: str | None, timestamp: str | None, streaming: bool
) -> Where:
    """Where to begin. The time for all weighs more than that of each, and that more than offsets,
    as in Spark's own source.
    """
    where = _where("starting", offsets, offsets_by_timestamp, timestamp)
    if where is None:
        return LATEST if streaming else EARLIEST
    if not streaming and _has_edge(where, Edge.LATEST):
        raise BadOption("option startingOffsets can't be latest, or -1, for a single read")
    return where


def ending(
    *, offsets: str | None, offsets_by_timestamp: str | None, timestamp: str | None
) -> Where:
    where = _where("ending", offsets, offsets_by_timestamp, timestamp)
    if where is None:
        return LATEST
    if _has_edge(where, Edge.EARLIEST):
        raise BadOption("option endingOffsets can't be earliest, or -2")
    return where


def question(where: Where, partition: TopicPartition) -> int | None:
    """What to ask of a partition's leader: a time, or an edge by its number; None: nothing."""
    match where:
        case AtEdge(edge):
            return edge
        case AtTime(timestamp_ms):
            return timestamp_ms
        case AtOffsets(places=places):
            place = places[partition]
            return place if isinstance(place, Edge) else None
        case AtTimes(timestamps_ms=timestamps_ms):
            return timestamps_ms[partition]
        case _:
            assert_never(where)


def covers(where: Where, partitions: Iterable[TopicPartition]) -> None:
    """BadPosition unless places told one by one are those of all partitions and no others."""
    match where:
        case AtOffsets(option=option, places=places):
            told = set(places)
        case AtTimes(option=option, timestamps_ms=timestamps_ms):
            told = set(timestamps_ms)
        case _:
            return
    there = set(partitions)
    for partition in sorted(there - told):
        raise BadPosition(
            f"option {option} has no offset for {partition}: give one for every partition"
        )
    for partition in sorted(told - there):
        raise BadPosition(f"option {option} names {partition}, which is not read")


def resolved(
    where: Where,
    answers: Mapping[TopicPartition, Offset | None],
    *,
    partitions: Iterable[TopicPartition],
    latest: Mapping[TopicPartition, Offset],
    none_that_young: NoneThatYoung,
) -> Offsets:
    """The offsets, by the answers to each `question`; a time without a record has None there."""
    found: Offsets = {}
    for partition in sorted(partitions):
        if question(where, partition) is None:
            assert isinstance(where, AtOffsets)
            place = where.places[partition]
            assert not isinstance(place, Edge)
            found[partition] = place
            continue
        answer = answers[partition]
        if answer is None and none_that_young is NoneThatYoung.ERROR:
            raise BadPosition(
                f"{partition} has no record at or after {question(where, partition)} ms; with"
                " startingOffsetsByTimestampStrategy=latest it begins at its end"
            )
        found[partition] = latest[partition] if answer is None else answer
    return found


def explicit_offsets(where: Where) -> Offsets:
    """The offsets that a user has told as numbers."""
    places = where.places if isinstance(where, AtOffsets) else {}
    return {one: place for one, place in places.items() if not isinstance(place, Edge)}


def beyond(where: Where, latest: Mapping[TopicPartition, Offset], *, which: str) -> list[str]:
    """Sentences on offsets that a user has told, and that the logs do not have yet or any more."""
    return [
        f"{partition} was to be read {which} offset {place} and ends at {latest[partition]}"
        for partition, place in sorted(explicit_offsets(where).items())
        if place > latest[partition]
    ]


def follows_the_end(where: Where, none_that_young: NoneThatYoung) -> bool:
    """Whether it may be another place when it is asked for later."""
    return _has_edge(where, Edge.LATEST) or (
        isinstance(where, AtTime | AtTimes) and none_that_young is NoneThatYoung.LATEST
    )


def as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As a checkpoint holds them; equal offsets have equal texts."""
    found: dict[str, dict[str, int]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(index)] = offset
    return found


def from_json(told: object) -> Offsets:
    """The offsets in a checkpoint; ForeignCheckpoint when they are none."""
    if told == {}:
        return {}  # of a pattern that no topic matched yet
    try:
        return {
            partition: Offset(_natural(number)) for partition, number in _by_partition(told).items()
        }
    except ValueError as error:
        raise ForeignCheckpoint(
            f"the checkpoint was written by another source: {json.dumps(told)} are no offsets of"
            " partitions; choose another checkpointLocation"
        ) from error


def _where(
    which: str, offsets: str | None, offsets_by_timestamp: str | None, timestamp: str | None
) -> Where | None:
    if timestamp is not None:
        return AtTime(_timestamp(f"{which}Timestamp", timestamp))
    if offsets_by_timestamp is not None:
        option = f"{which}OffsetsByTimestamp"
        try:
            times = _by_partition(json.loads(offsets_by_timestamp))
            return AtTimes(
                option=option, timestamps_ms={p: _natural(time) for p, time in times.items()}
            )
        except ValueError as error:
            raise _not_json(option, offsets_by_timestamp, 1767225600000) from error
    if offsets is None:
        return None
    option = f"{which}Offsets"
    if offsets.strip().lower() in ("earliest", "latest"):
        return AtEdge(Edge[offsets.strip().upper()])
    try:
        places = _by_partition(json.loads(offsets))
        return AtOffsets(option=option, places={p: _place(told) for p, told in places.items()})
    except ValueError as error:
        raise _not_json(option, offsets, 12, "earliest, latest, or ") from error


def _not_json(option: str, told: str, number: int, others: str = "") -> BadOption:
    example = json.dumps({"orders": {"0": number}})
    return BadOption(f"option {option} is {told!r}: it must be {others}JSON such as {example}")


def _by_partition(told: object) -> dict[TopicPartition, object]:
    """ValueError unless it is an object of topics, each an object of partitions."""
    if not isinstance(told, dict) or not told:
        raise ValueError("no object of topics")
    found: dict[TopicPartition, object] = {}
    for topic, partitions in told.items():
        if not isinstance(partitions, dict):
            raise ValueError("no object of partitions")
        for index, number in partitions.items():
            if not (index.isascii() and index.isdigit()):
                raise ValueError("no number of a partition")
            found[TopicPartition(topic, int(index))] = number
    return found


def _natural(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= OFFSET_MAX:
        raise ValueError("no offset")
    return number


def _place(number: object) -> Offset | Edge:
    if number in (Edge.EARLIEST, Edge.LATEST) and not isinstance(number, bool | float):
        assert isinstance(number, int)
        return Edge(number)
    return Offset(_natural(number))


def _timestamp(option: str, told: str) -> int:
    text = told.strip()
    if not text.isascii() or not text.isdigit() or int(text) > OFFSET_MAX:
        raise BadOption(f"option {option} is {told!r}: it must be milliseconds since 1970")
    return int(text)


def _assigned(told: str) -> tuple[TopicPartition, ...]:
    try:
        topics = json.loads(told)
        if not isinstance(topics, dict):
            raise ValueError("no object")
        found = sorted(
            {TopicPartition(topic, _natural(one)) for topic, ones in topics.items() for one in ones}
        )
        if not found:
            raise ValueError("no partition")
    except (ValueError, TypeError) as error:
        raise BadOption(
            f'option assign is {told!r}: it must be JSON such as {{"orders": [0, 1]}}'
        ) from error
    return tuple(found)


def _assigned_json(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _has_edge(where: Where, edge: Edge) -> bool:
    match where:
        case AtEdge(told):
            return told is edge
        case AtOffsets(places=places):
            return any(place is edge for place in places.values())
        case _:
            return False

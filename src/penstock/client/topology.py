"""Topics as a file wants them, against topics as they are: the steps between the two.

`plan_topics` is pure. Steps only add and set, never delete: what a file does not name it does not
know of.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.model.error import PenstockError


class BadTopicsFile(PenstockError):
    """A file that does not say which topics there should be."""


class ImpossiblePlan(PenstockError):
    """The file wants what a topic can't become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    name: str
    partitions: int | None = None
    replicas: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    partitions: int
    settings: Mapping[str, str | None]  # those of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    topic: WantedTopic

    def __str__(self) -> str:
        partitions = self.topic.partitions or "the broker's number of"
        settings = "".join(f" {name}={value}" for name, value in self.topic.settings.items())
        return f"create {self.topic.name}: {partitions} partitions{settings}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    name: str
    count: int  # that there are afterwards

    def __str__(self) -> str:
        return f"alter {self.name}: {self.count} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings:
    name: str
    settings: Mapping[str, str]

    def __str__(self) -> str:
        settings = "".join(f" {name}={value}" for name, value in self.settings.items())
        return f"alter {self.name}:{settings}"


Step = CreateTopic | AddPartitions | SetSettings


def plan_topics(wanted: Mapping[str, WantedTopic], found: Mapping[str, FoundTopic]) -> list[Step]:
    """What to do, in the order of the file."""
    steps: list[Step] = []
    for name, topic in wanted.items():
        there = found.get(name)
        if there is None:
            steps.append(CreateTopic(topic=topic))
            continue
        if topic.partitions is not None and topic.partitions < there.partitions:
            raise ImpossiblePlan(
                f"{name} has {there.partitions} partitions, and can't go back to {topic.partitions}"
            )
        if topic.partitions is not None and topic.partitions > there.partitions:
            steps.append(AddPartitions(name=name, count=topic.partitions))
        changed = {n: v for n, v in topic.settings.items() if there.settings.get(n) != v}
        if changed:
            steps.append(SetSettings(name=name, settings=changed))
    return steps


def read_topics_file(path: Path) -> dict[str, WantedTopic]:
    try:
        text = path.read_text("utf-8")
        content: object = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, UnicodeDecodeError) as trouble:
        raise BadTopicsFile(f"{path}: {trouble}") from trouble
    topics = content.get("topics") if isinstance(content, dict) else None
    if not isinstance(topics, dict) or not topics:
        raise BadTopicsFile(f"{path}: expected a table `topics` with a table for each topic")
    return {name: _wanted(path, name, entry) for name, entry in topics.items()}


def _wanted(path: Path, name: str, entry: object) -> WantedTopic:
    if not isinstance(entry, dict):
        raise BadTopicsFile(f"{path}: topics.{name} is no table")
    unknown = set(entry) - {"partitions", "replicas", "settings"}
    if unknown:
        raise BadTopicsFile(
            f"{path}: topics.{name}.{min(unknown)} is not known: expected partitions, replicas"
            " or settings"
        )
    settings = entry.get("settings", {})
    if not isinstance(settings, dict):
        raise BadTopicsFile(f"{path}: topics.{name}.settings is no table")
    return WantedTopic(
        name=name,
        partitions=_count(path, name, entry, "partitions"),
        replicas=_count(path, name, entry, "replicas"),
        settings={setting: _text(value) for setting, value in settings.items()},
    )


def _count(path: Path, name: str, entry: Mapping[str, object], what: str) -> int | None:
    value = entry.get(what)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadTopicsFile(f"{path}: topics.{name}.{what} is no number above 0")
    return value


def _text(value: object) -> str:
    """A value as settings are written: Kafka's `true`, not Python's."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)

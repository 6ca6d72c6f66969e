"""A topology: the topics that somebody wants, as a file (TOML or JSON) says it.

    [topics."shop.orders"]
    key = "order_id"               what records are keyed by, and so what they are in order by
    partitions = 6                 default: the broker's
    replicas = 3                   default: the broker's
    guarantee = "exactly-once"     what its writer promises: at-most-once | at-least-once | ...
    retention = "7d"               30s, 15m, 12h, 7d, or forever
    compaction = true              the latest value of each key is kept
    settings = { "max.message.bytes" = 2097152 }

`key` and `guarantee` are for readers of the file and for tools; the cluster is not told. A name
that stands for nothing is refused, with the nearest that does. `parse_topology` is pure.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass

TOPIC_KEYS = (
    "key",
    "partitions",
    "replicas",
    "guarantee",
    "retention",
    "compaction",
    "settings",
)
CLEANUP = "cleanup.policy"
RETENTION = "retention.ms"
FOREVER = "forever"
FOREVER_MS = -1
MS_OF_UNIT = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
PARTITIONS_MAX = 2**31 - 1  # that a request can ask for
REPLICAS_MAX = 2**15 - 1
MOST = {"partitions": PARTITIONS_MAX, "replicas": REPLICAS_MAX}
DURATION = re.compile(r"([1-9]\d*)([smhd])")


class BadTopology(PenstockError):
    """A file that does not say which topics there should be."""


class Guarantee(Enum):
    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    name: str
    key: str | None = None
    guarantee: Guarantee | None = None
    partitions: int | None = None
    replicas: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # retention and compaction too


def read_topology(path: Path) -> dict[str, WantedTopic]:
    """The topics of a file, by name, in its order."""
    try:
        text = path.read_text("utf-8")
        content: object = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadTopology(f"{path}: {error}") from error
    try:
        return parse_topology(content)
    except BadTopology as error:
        raise BadTopology(f"{path}: {error}") from error


def parse_topology(content: object) -> dict[str, WantedTopic]:
    if not isinstance(content, dict) or not isinstance(content.get("topics"), dict):
        raise BadTopology("expected a table `topics` with a table for each topic")
    _refuse_unknown(content, ("topics",), where="")
    topics = content["topics"]
    if not topics:
        raise BadTopology("`topics` names no topic")
    return {name: _wanted(name, entry) for name, entry in topics.items()}


def _wanted(name: str, entry: object) -> WantedTopic:
    where = f"topics.{name}"
    if not isinstance(entry, dict):
        raise BadTopology(f"{where} is no table")
    _refuse_unknown(entry, TOPIC_KEYS, where=f"{where}.")
    settings = entry.get("settings", {})
    if not isinstance(settings, dict):
        raise BadTopology(f"{where}.settings is no table")
    cleaning = _cleaning(where, entry)
    twice = [setting for setting in settings if setting in cleaning]
    if twice:
        raise BadTopology(f"{where}: {twice[0]} follows from retention and compaction already")
    key = entry.get("key")
    if key is not None and not isinstance(key, str):
        raise BadTopology(f"{where}.key is no text")
    return WantedTopic(
        name=name,
        key=key,
        guarantee=_guarantee(where, entry.get("guarantee")),
        partitions=_count(where, entry, "partitions"),
        replicas=_count(where, entry, "replicas"),
        settings=cleaning | {setting: _text(value) for setting, value in settings.items()},
    )


def _cleaning(where: str, entry: Mapping[str, object]) -> dict[str, str]:
    """The settings that `retention` and `compaction` stand for; none where neither is given."""
    retention, compaction = entry.get("retention"), entry.get("compaction")
    if compaction is not None and not isinstance(compaction, bool):
        raise BadTopology(f"{where}.compaction is neither true nor false")
    settings = {}
    if compaction:
        settings[CLEANUP] = "compact" if retention is None else "compact,delete"
    elif compaction is not None or retention is not None:
        settings[CLEANUP] = "delete"
    if retention is not None:
        settings[RETENTION] = str(_duration_ms(where, retention))
    return settings


def _duration_ms(where: str, value: object) -> int:
    if value == FOREVER:
        return FOREVER_MS
    found = DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise BadTopology(f"{where}.retention is {value!r}: expected such as 12h, 7d or {FOREVER}")
    return int(found[1]) * MS_OF_UNIT[found[2]]


def _guarantee(where: str, value: object) -> Guarantee | None:
    if value is None:
        return None
    known = [guarantee.value for guarantee in Guarantee]
    if value not in known:
        raise BadTopology(f"{where}.guarantee is {value!r}: expected {', '.join(known)}")
    return Guarantee(value)


def _count(where: str, entry: Mapping[str, object], what: str) -> int | None:
    value = entry.get(what)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadTopology(f"{where}.{what} is no number above 0")
    if value > MOST[what]:
        raise BadTopology(f"{where}.{what} is {value}: {MOST[what]} is the most")
    return value


def _text(value: object) -> str:
    """A value as settings are written: Kafka's `true`, not Python's."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)


def _refuse_unknown(entry: Mapping[str, object], known: Collection[str], *, where: str) -> None:
    for name in entry:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        instead = f"did you mean {near[0]}?" if near else f"expected {', '.join(known)}"
        raise BadTopology(f"{where}{name} is not known: {instead}")
